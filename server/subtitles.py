"""Subtitles of a spoken text: its words in cues that can be read, as WebVTT or SubRip.

The limits are those of Netflix's Timed Text Style Guide (general requirements): two lines of 42
characters, and cues of 5/6 s to 7 s. Words are never moved from one sentence's cue to another's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from server.sessions.spoken import WordTime, to_ms

MAX_LINE_CHARS = 42
_MAX_CUE_CHARS = 2 * MAX_LINE_CHARS + 1  # the space at which the lines part
_MAX_CUE_MS = 7000
_MIN_CUE_MS = 833
# What a cue costs, in units of one that is empty: by itself, and for ending within a clause.
_PER_CUE = 0.4
_BROKEN_CLAUSE = 0.4
_CLAUSE_END = re.compile(r"[,;:.!?…—–][\"')\]”’»]*\Z")
_SENTENCE_END = re.compile(r"[.!?…][\"')\]”’»]*\Z")


class SubtitleFormat(StrEnum):
    """A ``response_format`` of subtitles."""

    VTT = "vtt"  # WebVTT, https://www.w3.org/TR/webvtt1/
    SRT = "srt"  # SubRip


CONTENT_TYPES = {
    SubtitleFormat.VTT: "text/vtt; charset=utf-8",
    SubtitleFormat.SRT: "application/x-subrip; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class Cue:
    """Lines that are shown together, and when."""

    start_ms: int
    end_ms: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    """As it is read: without white space, in ms."""

    text: str
    start_ms: int
    end_ms: int


def make_cues(
    text: str,
    words: Sequence[WordTime],
    sentences: Sequence[tuple[int, int]],
    sample_rate: int,
    num_samples: int,
) -> list[Cue]:
    """The cues of a spoken text. They do not overlap and end with the audio at the latest.

    ``sentences``: first and last character of each, as the engine cut them; without any, the marks
    in the text tell where they end. ``num_samples`` of audio at ``sample_rate``.
    """
    cues: list[Cue] = []
    for sentence in _by_sentence(text, words, sentences):
        readable = [_readable(text, word, sample_rate) for word in sentence]
        cues += (_cue(part) for part in _parts(readable))
    return list(_lengthened(cues, to_ms(num_samples, sample_rate)))


def write_subtitles(cues: Iterable[Cue], fmt: SubtitleFormat) -> str:
    """The file."""
    if fmt is SubtitleFormat.SRT:
        blocks = [_block(cue, ",", cue.lines, number) for number, cue in enumerate(cues, 1)]
        return "\n".join(blocks)
    return "\n".join(["WEBVTT\n", *(_block(cue, ".", map(_escaped, cue.lines)) for cue in cues)])


# --- from words to cues --------------------------------------------------------------------------


def _by_sentence(
    text: str, words: Sequence[WordTime], sentences: Sequence[tuple[int, int]]
) -> Iterator[list[WordTime]]:
    ends = iter(sorted(last for _, last in sentences))
    end = next(ends, len(text))
    group: list[WordTime] = []
    for word in words:
        while group and word.first_char >= end:
            yield group
            group, end = [], next((later for later in ends if later > word.first_char), len(text))
        group.append(word)
        if not sentences and _SENTENCE_END.search(text[word.first_char : word.last_char]):
            yield group
            group = []
    if group:
        yield group


def _readable(text: str, word: WordTime, sample_rate: int) -> _Word:
    written = " ".join(text[word.first_char : word.last_char].split())
    first_ms, last_ms = to_ms(word.first_sample, sample_rate), to_ms(word.last_sample, sample_rate)
    return _Word(written, first_ms, last_ms)


def _parts(words: Sequence[_Word]) -> list[Sequence[_Word]]:
    """A sentence in the cheapest sequence of parts that fit into a cue."""
    costs, starts = [0.0], [0]
    for end in range(1, len(words) + 1):
        best, best_start = float("inf"), end - 1
        for start in range(end - 1, -1, -1):
            part = words[start:end]
            if end - start > 1 and not _fits(part):
                break
            cost = costs[start] + _cost(part, is_last=end == len(words))
            if cost < best:
                best, best_start = cost, start
        costs.append(best)
        starts.append(best_start)
    parts: list[Sequence[_Word]] = []
    end = len(words)
    while end:
        parts.insert(0, words[starts[end] : end])
        end = starts[end]
    return parts


def _fits(part: Sequence[_Word]) -> bool:
    is_short = part[-1].end_ms - part[0].start_ms <= _MAX_CUE_MS
    num_chars = sum(len(word.text) + 1 for word in part) - 1
    if not is_short or num_chars > _MAX_CUE_CHARS:
        return False
    return num_chars <= MAX_LINE_CHARS or _line_break(part) is not None


def _cost(part: Sequence[_Word], *, is_last: bool) -> float:
    num_chars = sum(len(word.text) + 1 for word in part) - 1
    emptiness = max(0.0, 1 - num_chars / _MAX_CUE_CHARS) ** 2
    is_broken = not is_last and not _CLAUSE_END.search(part[-1].text)
    return _PER_CUE + emptiness + is_broken * _BROKEN_CLAUSE


def _line_break(part: Sequence[_Word]) -> int | None:
    """The number of words in the first of two lines, which are about equal; None if none fits."""
    lengths = [len(word.text) + 1 for word in part]
    best, best_cost = None, float("inf")
    first, total = -1, sum(lengths) - 1
    for number in range(1, len(part)):
        first += lengths[number - 1]
        second = total - first - 1
        is_broken = not _CLAUSE_END.search(part[number - 1].text)
        cost = abs(first - second) / MAX_LINE_CHARS + is_broken * _BROKEN_CLAUSE
        if max(first, second) <= MAX_LINE_CHARS and cost < best_cost:
            best, best_cost = number, cost
    return best


def _cue(part: Sequence[_Word]) -> Cue:
    return Cue(part[0].start_ms, part[-1].end_ms, _lines(part))


def _lines(part: Sequence[_Word]) -> tuple[str, ...]:
    whole = " ".join(word.text for word in part)
    if len(whole) <= MAX_LINE_CHARS:
        return (whole,)
    number = _line_break(part)
    if number is None:  # one word, such as an address
        starts = range(0, len(whole), MAX_LINE_CHARS)
        return tuple(whole[start : start + MAX_LINE_CHARS] for start in starts)
    halves = part[:number], part[number:]
    return tuple(" ".join(word.text for word in half) for half in halves)


def _lengthened(cues: Sequence[Cue], audio_ms: int) -> Iterator[Cue]:
    """Cues stay long enough to be read, if the next one and the audio's end let them."""
    for number, cue in enumerate(cues):
        latest = cues[number + 1].start_ms if number + 1 < len(cues) else audio_ms
        end_ms = min(latest, max(cue.end_ms, cue.start_ms + _MIN_CUE_MS))
        yield Cue(cue.start_ms, max(end_ms, cue.start_ms + 1), cue.lines)


# --- the files -----------------------------------------------------------------------------------


def _block(cue: Cue, mark: str, lines: Iterable[str], number: int | None = None) -> str:
    head = [] if number is None else [str(number)]
    times = f"{_clock(cue.start_ms, mark)} --> {_clock(cue.end_ms, mark)}"
    return "\n".join([*head, times, *lines, ""])


def _clock(ms: int, mark: str) -> str:
    minutes, rest_ms = divmod(ms, 60_000)
    seconds, millis = divmod(rest_ms, 1000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}{mark}{millis:03}"


def _escaped(line: str) -> str:
    """In WebVTT ``&`` and ``<`` begin something, and a line may not hold ``-->``."""
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
