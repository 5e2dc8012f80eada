"""Text as a user sends it -> text that the English G2P reads as meant.

Runs in the caller's process: standard library and anyascii only. Time and memory are linear in
the text: it is read in blocks, and each pattern either matches with possessive or bounded repeats
or starts at most once per word.
"""

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from worker.models.hibari.text.characters import read_characters
from worker.models.hibari.text.draft import Draft, Span
from worker.models.hibari.text.links import read_addresses
from worker.models.hibari.text.markdown import read_emphasis, read_inline, read_lines
from worker.models.hibari.text.markup import strip_tags, unescape_entities
from worker.models.hibari.text.notices import Notices
from worker.models.hibari.text.numbers import read_numbers
from worker.models.hibari.text.punctuation import read_symbols, settle_punctuation, squeeze
from worker.models.hibari.text.words import read_words

# One scan of a block holds the interpreter lock; 8,000 characters keep that under a millisecond
# or so. Longer than any sentence, so cuts fall between paragraphs or sentences in real text.
BLOCK_CHARS = 8000

_NEWLINE = re.compile(r"\r\n?")


@dataclass(frozen=True, slots=True)
class CleanText:
    """What will be spoken, and which part of the original each character of it stands for.

    `starts[i]`, `ends[i]`: the original span of character `i`; both have the length of `text` and
    never decrease. `warnings`: ASCII sentences about what was skipped, changed or shortened.
    `speakable`: whether anything is left to say.
    """

    text: str
    starts: "array[int]"
    ends: "array[int]"
    warnings: tuple[str, ...]
    speakable: bool

    def original_span(self, start: int, end: int) -> Span:
        """The original text behind `text[start:end]`; `0 <= start <= end <= len(text)`."""
        if start == end:
            at = self.starts[start] if start < len(self.starts) else (self.ends or [0])[-1]
            return Span(at, at)
        return Span(self.starts[start], self.ends[end - 1])


def clean_text(text: str) -> CleanText:
    """Normalise any `str`, lone surrogates included. Never raises; an empty result is unspeakable.

    "\\n" in the result ends a sentence, "\\n\\n" a paragraph.
    """
    notices = Notices()
    parts: list[str] = []
    starts, ends = array("I"), array("I")
    pending = ""
    for base, block, separator in _blocks(text):
        draft = Draft(block, base)
        _clean_block(draft, notices)
        if draft.text:
            if parts and pending:
                parts.append(pending)
                starts.extend(array("I", (ends[-1],)) * len(pending))
                ends.extend(array("I", (ends[-1],)) * len(pending))
            parts.append(draft.text)
            starts.extend(draft.starts)
            ends.extend(draft.ends)
            pending = ""
        pending = max(pending, separator, key=len)
    clean = "".join(parts)
    if not any(map(str.isalnum, clean)):  # bare punctuation would only make noise
        return CleanText("", array("I"), array("I"), notices.sentences(), False)
    return CleanText(clean, starts, ends, notices.sentences(), True)


def _clean_block(draft: Draft, notices: Notices) -> None:
    draft.sub(_NEWLINE, "\n", "\r")
    unescape_entities(draft)
    read_characters(draft, notices)
    squeeze(draft)
    strip_tags(draft)
    read_inline(draft)
    read_addresses(draft, notices)
    read_lines(draft)
    read_emphasis(draft)
    read_numbers(draft, notices)
    read_words(draft, notices)
    read_symbols(draft, notices)
    settle_punctuation(draft)


def _blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """`(offset, block, separator)`: cuts at a paragraph, else a line, else a sentence or space."""
    start = 0
    while len(text) - start > BLOCK_CHARS:
        end, separator = _cut(text, start)
        yield start, text[start:end], separator
        start = end
    yield start, text[start:], ""


def _cut(text: str, start: int) -> tuple[int, str]:
    low, high = start + BLOCK_CHARS // 2, start + BLOCK_CHARS
    for mark, separator in (("\n\n", "\n\n"), ("\n", "\n"), (". ", " "), (" ", " ")):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark), separator
    return high, ""


def pack_clean(clean: CleanText) -> dict[str, object]:
    """A cleaned text as a prompt carries it."""
    return {"text": clean.text, "starts": clean.starts.tobytes(), "ends": clean.ends.tobytes()}


def unpack_clean(prompt: dict[str, object]) -> CleanText:
    """The cleaned text of a prompt."""
    starts, ends = array("I"), array("I")
    starts.frombytes(prompt["starts"])  # type: ignore[arg-type]
    ends.frombytes(prompt["ends"])  # type: ignore[arg-type]
    return CleanText(str(prompt["text"]), starts, ends, (), True)
