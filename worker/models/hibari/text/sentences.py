"""Clean text -> sentences, lazily, from a whole text or from text that arrives in pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from worker.models.hibari.text.draft import Span

# About a minute of speech at most; a text without any stop is cut here, so one sentence never
# costs more than this much front end, whatever is sent.
MAX_SENTENCE_CHARS = 600
# Longest word looked at to decide about an abbreviation's full stop.
_MAX_LOOKAHEAD = 32
_FEED_CHARS = 4096

_CANDIDATE = re.compile(r"\n|[.!?…]")
_CLOSERS = "\"')”’"
_OPENERS = "\"'(“‘"
_SPACE = re.compile(r"\s*")
_DOTTED = re.compile(r"[A-Za-z](?:\.[A-Za-z])+")
_CLAUSE = re.compile(r"[,;:—)](?=\s)|\s(?=[—(])")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NEVER_LAST = _words(
    "e.g i.e cf vs Mr Mrs Ms Dr Prof Gen Gov Sen Rep Capt Lt Col Sgt Cmdr Rev Hon Pres Supt Cpl "
    "Maj Adm Fr Msgr Messrs Mme Mlle Sr Sra"
)
_ABBREVIATIONS = _words(
    "St Mt Ft Jr Sr vs etc al Inc Ltd Co Corp Bros Dept Univ Assn Govt Ave Blvd Rd Ln Hwy Pkwy "
    "Ste Apt Bldg No Nos no nos Vol vol Fig fig Figs figs Ch ch pp p ed eds est approx cf ca "
    "Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct Nov Dec Mon Tue Tues Wed Thu Thurs Fri Sat Sun "
    "Sec sec Eq eq Art art Op op min max tel Tel ext Ext"
)
# A capital after an abbreviation starts a sentence only when it is one of these.
_STARTERS = _words(
    "A An And Are As At But By Can Do Does For From He Her Here His How However I If In Is It "
    "Its My No Not Now On Or Our She So Some Thank That The Their Then There These They This "
    "Those To Was We Were What When Where Which While Who Why Will With Would Yes You Your"
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence, its place in the clean text, and whether a paragraph ends with it."""

    text: str
    span: Span
    paragraph_end: bool


def split_sentences(clean: str, begin: int = 0) -> Iterator[Sentence]:
    """Sentences in order. Lazy: the first comes after reading about its own length.

    ``begin`` is 0 or where a sentence starts: what comes before it changes nothing after it.
    """
    splitter = SentenceSplitter(begin)
    for start in range(begin, len(clean), _FEED_CHARS):
        yield from splitter.feed(clean[start : start + _FEED_CHARS])
    yield from splitter.flush()


class SentenceSplitter:
    """The same sentences from text that arrives piece by piece, whatever the pieces are.

    `feed` answers the sentences that no later text can change; `flush` ends the text. Holds at
    most MAX_SENTENCE_CHARS plus one piece (white space aside). Not thread-safe.
    """

    def __init__(self, offset: int = 0) -> None:
        self._buffer = ""
        self._offset = offset  # place of the buffer's first character in the whole text
        self._scanned = 0  # no boundary lies before this index

    @property
    def has_text(self) -> bool:
        """Whether the start of a sentence is held."""
        return bool(self._buffer.strip())

    @property
    def offset(self) -> int:
        """Where what is held starts in the whole text."""
        return self._offset

    def feed(self, text: str) -> list[Sentence]:
        self._buffer += text
        return self._take(final=False)

    def flush(self) -> list[Sentence]:
        sentences = self._take(final=True)
        self._offset += len(self._buffer)
        self._buffer, self._scanned = "", 0
        return sentences

    def _take(self, final: bool) -> list[Sentence]:
        found: list[Sentence] = []
        pos = 0
        while (cut := self._next_cut(pos, final)) is not None:
            end, following = cut
            found.extend(self._sentence(pos, end, following))
            self._scanned = pos = following
        pos = _skip_space(self._buffer, pos)
        self._offset += pos
        self._buffer = self._buffer[pos:]
        self._scanned = max(0, self._scanned - pos)
        return found

    def _sentence(self, start: int, end: int, following: int) -> Iterator[Sentence]:
        """The sentence `[start, end)` without outer white space, unless nothing is left."""
        start = _skip_space(self._buffer, start)
        text = self._buffer[start:end].rstrip()
        if text:
            first = self._offset + start
            gap = self._buffer[end:following]
            yield Sentence(text, Span(first, first + len(text)), gap.count("\n") > 1)

    def _next_cut(self, start: int, final: bool) -> tuple[int, int] | None:
        """`(end, start of the next)`, or None while later text could still change it."""
        buffer = self._buffer
        start = _skip_space(buffer, start)
        limit = start + MAX_SENTENCE_CHARS
        scan = max(start, self._scanned)
        while candidate := _CANDIDATE.search(buffer, scan, limit):
            stop = _Stop.at(buffer, start, candidate)
            if not final and not stop.is_decided():
                self._scanned = candidate.start()
                return None
            if stop.ends_sentence():
                return stop.end, stop.following
            scan = candidate.end()
        self._scanned = max(scan, min(limit, len(buffer)))
        if len(buffer) > limit:
            end = forced_cut(buffer, start, limit)
            return end, end
        return (len(buffer), len(buffer)) if final and start < len(buffer) else None


@dataclass(frozen=True, slots=True)
class _Stop:
    """A mark that may end a sentence, with what surrounds it."""

    buffer: str
    mark: str
    start: int  # of the sentence
    end: int  # behind the mark and its closing quotes
    following: int  # next character that is no white space
    word: str  # before a full stop, without opening quotes

    @classmethod
    def at(cls, buffer: str, start: int, match: re.Match[str]) -> "_Stop":
        mark, at = match.group(), match.start()
        end = at if mark == "\n" else _skip(buffer, at + 1, _CLOSERS)
        word = ""
        if mark == ".":
            word = (buffer[max(start, at - _MAX_LOOKAHEAD) : at].split() or [""])[-1]
        return cls(buffer, mark, start, end, _skip_space(buffer, end), word.lstrip(_OPENERS))

    def is_decided(self) -> bool:
        """Whether text still to come cannot change the answer of `ends_sentence`."""
        if self.end == len(self.buffer):
            return False
        if self.following == self.end:
            return True
        if self.following == len(self.buffer):
            return False
        word = self._next_word()
        seen_whole = len(word) == _MAX_LOOKAHEAD or self.following + len(word) < len(self.buffer)
        return seen_whole or (not self._is_abbreviated() and word.strip(_OPENERS) != "")

    def ends_sentence(self) -> bool:
        if self.mark == "\n" or self.following == len(self.buffer):
            return True
        if self.following == self.end:
            return False
        if "\n" in self.buffer[self.end : self.following]:
            return True
        following = self._next_word().lstrip(_OPENERS)
        if following[:1].islower() or self._is_bare_number():
            return False
        if not self._is_abbreviated():
            return True
        return self.word not in _NEVER_LAST and following.rstrip(",.!?") in _STARTERS

    def _next_word(self) -> str:
        return (self.buffer[self.following : self.following + _MAX_LOOKAHEAD].split() or [""])[0]

    def _is_bare_number(self) -> bool:
        """The number of a list's item: "2. Check the logs"."""
        is_first = self.end - len(self.word) - 1 <= self.start
        return is_first and self.word.isdigit() and len(self.word) <= 3

    def _is_abbreviated(self) -> bool:
        """Title, initial, abbreviation or dotted letters ("p.m", "U.S")."""
        word = self.word
        if len(word) == 1:
            return word.isupper()
        return word in _NEVER_LAST or word in _ABBREVIATIONS or _DOTTED.fullmatch(word) is not None


def forced_cut(text: str, start: int, limit: int) -> int:
    """Where to end a sentence of more than `limit - start` characters: at a clause, else a word."""
    half = start + (limit - start) // 2
    clauses = [match.end() for match in _CLAUSE.finditer(text, half, limit)]
    if clauses:
        return clauses[-1]
    for end in range(limit, half, -1):
        if text[end - 1].isspace():
            return end
    return limit


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _skip(text: str, start: int, chars: str) -> int:
    while start < len(text) and text[start] in chars:
        start += 1
    return start
