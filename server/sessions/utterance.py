"""One utterance of a speech session: its text, and the audio that was made of it so far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from server.sessions.clauses import ClauseFinder
from server.sessions.effects import AppendText, Effect, FlushText
from server.sessions.spoken import TextLog, WordLedger, WordTime

# English speech has about 15 characters a second.
_CHARS_PER_S = 15.0
# A listener who has less than this ahead would run dry before a sentence of ordinary length has
# been written by a language model at 30 tokens a second and spoken.
_MIN_AHEAD_S = 1.0
# Of one utterance, each told once: there are few kinds, and a sentence has at most eight.
_MAX_WARNINGS = 32


@dataclass(slots=True)
class Unit:
    """A piece of an utterance that is announced, sent and ended: a sentence, a clause or all of it.

    ``first_sample`` is where it begins in the utterance's audio; characters are those of the
    utterance's text.
    """

    index: int
    first_char: int
    last_char: int
    first_sample: int
    num_bytes: int = 0
    num_chunks: int = 0
    words: list[WordTime] = field(default_factory=list)
    num_told_words: int = 0
    warnings: list[str] = field(default_factory=list)

    def take_new_words(self) -> list[WordTime]:
        """The words that the client has not been told yet."""
        new = self.words[self.num_told_words :]
        self.num_told_words = len(self.words)
        return new


@dataclass(frozen=True, slots=True)
class AudioPiece:
    """What one output of the engine came to.

    ``data``: coded audio, empty if the coder holds it back. ``num_samples`` at the engine's rate,
    whether or not they are in ``data``. ``span``: the characters of the unit it is of; ``opens``
    and ``ends``: it is the unit's first or last piece. ``warnings``: what was skipped or changed in
    the text up to it.
    """

    data: bytes | memoryview
    num_samples: int
    words: list[WordTime]
    span: tuple[int, int]
    opens: bool
    ends: bool
    warnings: tuple[str, ...] = ()

    @property
    def only_warns(self) -> bool:
        """It belongs to no unit: the text behind the last one has no sound."""
        return not (self.data or self.num_samples or self.opens or self.ends)


@dataclass(slots=True, eq=False)
class Utterance:
    """``has_all_text``: ``input.done`` has come. ``is_failed``: the engine gave it up."""

    index: int
    text: TextLog = field(default_factory=TextLog)
    words: WordLedger = field(default_factory=WordLedger)
    clauses: ClauseFinder = field(default_factory=ClauseFinder)
    has_all_text: bool = False
    is_failed: bool = False
    unit: Unit | None = None
    num_units: int = 0
    num_samples: int = 0
    num_spoken_chars: int = 0
    first_audio_at: float | None = None
    warnings: list[str] = field(default_factory=list)

    def ahead_s(self, now: float, sample_rate: int) -> float:
        """Seconds until a listener who began at the first audio has heard all that is certain."""
        num_waiting = max(0, self.clauses.num_settled - self.num_spoken_chars)
        waiting_s = num_waiting / _CHARS_PER_S
        if self.first_audio_at is None:
            return waiting_s
        played_s = now - self.first_audio_at
        return max(0.0, self.num_samples / sample_rate - played_s) + waiting_s

    def would_run_dry(self, now: float, sample_rate: int) -> bool:
        return self.ahead_s(now, sample_rate) < _MIN_AHEAD_S

    def warn(self, warnings: Iterable[str]) -> None:
        """Note what was skipped or changed in the text."""
        new = [warning for warning in warnings if warning not in self.warnings]
        self.warnings = [*self.warnings, *dict.fromkeys(new)][:_MAX_WARNINGS]

    def take_audio(self, piece: AudioPiece, now: float) -> Unit:
        """Count a piece; the unit it belongs to."""
        if piece.opens or self.unit is None:
            self.unit = Unit(self.num_units, *piece.span, self.num_samples)
            self.num_units += 1
        if self.first_audio_at is None:
            self.first_audio_at = now
        self.unit.last_char = max(self.unit.last_char, piece.span[1])
        self.unit.words += piece.words
        self.words.add(piece.words)
        self.unit.warnings += piece.warnings
        self.warn(piece.warnings)
        self.num_samples += piece.num_samples
        self.num_spoken_chars = max(self.num_spoken_chars, piece.span[1])
        return self.unit


def append_text(utterance: Utterance, text: str, *, is_cut: bool) -> list[Effect]:
    """Pass text on; if ``is_cut`` and a clause ends in it, have it spoken up to there."""
    utterance.text.append(text)
    cut = utterance.clauses.feed(text, cut=is_cut)
    if cut is None:
        return [AppendText(utterance.index, text)]
    effects: list[Effect] = [FlushText(utterance.index)]
    if cut > 0:
        effects.insert(0, AppendText(utterance.index, text[:cut]))
    return [*effects, AppendText(utterance.index, text[cut:])] if text[cut:] else effects
