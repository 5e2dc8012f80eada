"""Sentences -> phoneme ids, in chunks that the prosody network takes at once."""

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import hibari
import numpy as np
from hibari.g2p import G2P
from hibari.g2p.normalize import normalize
from hibari.g2p.oov import OOV

from worker.models.hibari.text.align import align_words
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.pronunciations import GB, US
from worker.models.hibari.text.sentences import MAX_SENTENCE_CHARS, Sentence, forced_cut

logger = logging.getLogger("voxloom.worker.models.hibari.text")

# Ids of one chunk, both pads included. 20 words have about 120; the network's cost grows with the
# square of the length, and an id may last half a second at speed 0.25.
MAX_IDS = 240
PAD_ID = 0
# One call of the G2P's tokenizer is quadratic in the longest run without a space.
MAX_WORD_CHARS = 100
# The net for unknown words reads no further; longer words are read in parts.
_MAX_UNKNOWN_CHARS = 24
_UNKNOWN_CACHE_WORDS = 4096

_ASSETS = Path(hibari.__file__).parent / "assets"
_VOCAB: dict[str, int] = json.loads((_ASSETS / "vocab.json").read_text(encoding="utf-8"))
_SOUNDS = frozenset("bdfhjklmnpstvwzðŋɡɹɾʃʒʤʧθTAIOQWYaiuæɑɒɔəɛɜɪʊʌᵻɐoeᵊ")
_CLAUSE_ENDS = frozenset(",;:—.!?…)")
# A link's target can dictate phonemes to the G2P; without brackets there is no link.
_BRACKETS = str.maketrans("[]{}", "()()")
_SPACED = re.compile(r"\S+")

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WordSpan:
    """One spoken word: `ids[start:end]` say it, `text` is its place in the clean text."""

    start: int
    end: int
    text: Span


@dataclass(frozen=True, slots=True)
class PhonemeChunk:
    """What the prosody network takes at once.

    `ids`: int64 [L], `3 <= L <= MAX_IDS`, a PAD_ID at each end. `phonemes[i]` has id `ids[i + 1]`.
    `words` ascend and do not overlap in ids. `span`: the chunk's part of the clean text.
    """

    ids: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    phonemes: str
    words: tuple[WordSpan, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Word:
    phonemes: str  # in the vocabulary, without outer spaces, never empty
    span: Span


class Phonemizer:
    """English G2P that takes any text. Loads on first use; safe to share between threads."""

    def __init__(self, british: bool = False) -> None:
        self._british = british
        self._lock = threading.Lock()
        self._loaded: Any = None

    def warm_up(self) -> None:
        """Load lexicon, tagger and net, so that the first text is not late."""
        list(self.chunks(Sentence("Hello, voxloom.", Span(0, 15), False)))

    def chunks(self, sentence: Sentence, warn: Warn | None = None) -> Iterator[PhonemeChunk]:
        """Phonemes of one sentence, at most MAX_IDS ids at a time; nothing for bare punctuation.

        `warn` hears about each word that could not be read (the log does always). Never raises
        for a text.
        """
        words = self._words(sentence, warn or _ignore)
        while words:
            num_words = _chunk_words(words)
            yield _build_chunk(words[:num_words])
            words = words[num_words:]

    def _words(self, sentence: Sentence, warn: Warn) -> list[_Word]:
        words = [
            word
            for start, end in _pieces(sentence.text)
            for word in self._read_piece(sentence, start, end, warn)
        ]
        return _split_long(_with_final_stop(words, sentence.text))

    def _read_piece(self, sentence: Sentence, start: int, end: int, warn: Warn) -> list[_Word]:
        """Words of `sentence.text[start:end]`; one that the G2P fails on is left out alone."""
        text = sentence.text[start:end].translate(_BRACKETS)
        offset = sentence.span.start + start
        try:
            return _words_of(self._g2p(), text, offset)
        except Exception:
            logger.exception("the G2P failed on a piece of %d characters", len(text))
        words: list[_Word] = []
        for match in _SPACED.finditer(text):
            try:
                words += _words_of(self._g2p(), match.group(), offset + match.start())
            except Exception:
                logger.exception("the G2P failed on a word")
                warn("skipped a word that could not be read")
        return words

    def _g2p(self) -> Any:
        if self._loaded is None:
            with self._lock:
                if self._loaded is None:
                    self._loaded = _load_g2p(self._british)
        return self._loaded


def _ignore(_: str) -> None:
    return None


def _load_g2p(british: bool) -> Any:
    g2p = G2P(oov=_unknown_word_reader(british), british=british)
    g2p.lexicon.golds.d.update(GB if british else US)
    return g2p


def _unknown_word_reader(british: bool) -> Callable[[str], str | None]:
    """The net for unknown words, with a memory, and in parts for words longer than its input."""
    net = OOV(str(_ASSETS / ("oov_gb.onnx" if british else "oov.onnx")))

    @lru_cache(maxsize=_UNKNOWN_CACHE_WORDS)
    def read(word: str) -> str | None:
        parts = -(-len(word) // _MAX_UNKNOWN_CHARS)
        size = -(-len(word) // parts)
        said = [net(word[i : i + size]) for i in range(0, len(word), size)]
        return "".join(p for p in said if p) or None

    return read


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Parts of a sentence that one G2P call takes: bounded length, no endless word."""
    start = 0
    for match in _SPACED.finditer(text):
        if match.end() - match.start() > MAX_WORD_CHARS:
            yield start, match.start()
            for at in range(match.start(), match.end(), MAX_WORD_CHARS):
                yield at, min(at + MAX_WORD_CHARS, match.end())
            start = match.end()
        elif match.end() - start > MAX_SENTENCE_CHARS:
            end = forced_cut(text, start, start + MAX_SENTENCE_CHARS)
            yield start, end
            start = end
    yield start, len(text)


def _words_of(g2p: Any, text: str, offset: int) -> list[_Word]:
    """The words of `text` with their phonemes; spans are relative to the clean text."""
    before = [(m.group(), m.start(), m.end()) for m in _SPACED.finditer(text)]
    normal = normalize(text)
    said = _phonemes_by_word(g2p.phonemize_tokens(g2p.tokenize(normal)))
    after = normal.split()
    if len(said) != len(after):
        after = [""] * len(said)
    words: list[_Word] = []
    for phonemes, (first, last) in zip(
        said, align_words([w for w, _, _ in before], after), strict=True
    ):
        span = Span(offset + before[first][1], offset + before[last - 1][2])
        _append_word(words, phonemes, span)
    return words


def _phonemes_by_word(tokens: list[Any]) -> list[str]:
    """Phonemes joined per white-space word; spaces may stand inside ("twˈɛnti fˈɔɹ")."""
    words: list[str] = []
    open_word = False
    for token in tokens:
        phonemes = token.phonemes or ""
        if open_word:
            words[-1] += phonemes
        else:
            words.append(phonemes)
        open_word = not token.whitespace
    return words


def _append_word(words: list[_Word], phonemes: str, span: Span) -> None:
    """Add a word; bare punctuation goes to the word before it, or is dropped at the start."""
    known = "".join(c for c in phonemes if c in _VOCAB).strip()
    if not known:
        return
    if _has_sound(known):
        words.append(_Word(known, span))
    elif words:
        last = words[-1]
        joint = " " if known[0] in "—(" else ""
        words[-1] = _Word(last.phonemes + joint + known, last.span)


def _with_final_stop(words: list[_Word], text: str) -> list[_Word]:
    """Give "… at 5 p.m." the stop that its abbreviation swallowed."""
    mark = text.rstrip("\"')”’ ")[-1:]
    if words and mark in (".", "!", "?") and words[-1].phonemes[-1] not in _CLAUSE_ENDS:
        words[-1] = _Word(words[-1].phonemes + mark, words[-1].span)
    return words


def _split_long(words: list[_Word]) -> list[_Word]:
    """Cut a word that alone exceeds a chunk (a number of a hundred spoken digits), at spaces."""
    if all(len(word.phonemes) <= MAX_IDS - 2 for word in words):
        return words
    parts: list[_Word] = []
    for word in words:
        rest = word.phonemes
        while len(rest) > MAX_IDS - 2:
            at = rest.rfind(" ", 1, MAX_IDS - 2)
            at = at if at > 0 else MAX_IDS - 2
            parts.append(_Word(rest[:at].rstrip(), word.span))
            rest = rest[at:].lstrip()
        parts.append(_Word(rest, word.span))
    return [part for part in parts if part.phonemes]


def _has_sound(phonemes: str) -> bool:
    return any(c in _SOUNDS for c in phonemes)


def _chunk_words(words: list[_Word]) -> int:
    """How many words the next chunk takes: all that fit, else up to a clause, else up to a word.

    Without a clause the cut takes an equal share of what is left, so that no chunk of one or two
    words follows.
    """
    room = MAX_IDS - 2
    lengths = _cumulative_lengths(words)
    if lengths[-1] <= room:
        return len(words)
    fitting = sum(1 for length in lengths if length <= room)
    for num_words in range(fitting, 0, -1):
        if words[num_words - 1].phonemes[-1] in _CLAUSE_ENDS and lengths[num_words - 1] * 3 > room:
            return num_words
    num_chunks = -(-lengths[-1] // room)
    share = sum(1 for length in lengths if length * num_chunks <= lengths[-1])
    return max(1, min(share, fitting))


def _cumulative_lengths(words: list[_Word]) -> list[int]:
    """Ids of the first 1, 2, … words with a space between them."""
    return list(accumulate((1 + len(word.phonemes) for word in words), initial=-1))[1:]


def _build_chunk(words: list[_Word]) -> PhonemeChunk:
    phonemes = ""
    spans: list[WordSpan] = []
    for word in words:
        phonemes += " " if phonemes else ""
        start = len(phonemes) + 1
        phonemes += word.phonemes
        spans.append(WordSpan(start, len(phonemes) + 1, word.span))
    ids = np.array([PAD_ID, *(_VOCAB[c] for c in phonemes), PAD_ID], np.int64)
    span = Span(words[0].span.start, words[-1].span.end)
    return PhonemeChunk(ids, phonemes, tuple(spans), span)
