"""What the prosody stage hands to code2wav: one unit per phoneme chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.messages import Payload
from worker.models.hibari.prosody_net import ProsodyFrames
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import PhonemeChunk, WordSpan


def make_unit(
    chunk: PhonemeChunk,
    frames: ProsodyFrames,
    *,
    seed: int,
    begins: bool,
    sentence: Span,
    ends_sentence: bool,
    locate: Callable[[Span], Span],
    shape: dict[str, float],
    model_path: str,
    warnings: tuple[str, ...] = (),
) -> Payload:
    """One unit.

    ``ids`` int64 [L], ``durations`` int32 [L] in 25 ms, ``f0`` float32 [F] in Hz, ``energy``
    float32 [F], F = 2 * sum(durations) frames of 12.5 ms. ``words``: first and last id, first and
    last character in the request's text, ends exclusive. ``begins``: speech begins here.
    ``sentence``: first and last character of the sentence that the chunk is of; and whether it is
    the sentence's last. ``warnings``: what was skipped or changed in the text, up to the chunk.
    """
    return {
        "ids": chunk.ids,
        "durations": frames.durations,
        "f0": frames.f0,
        "energy": frames.energy,
        "words": place_in_text(chunk.words, locate),
        "seed": seed,
        "begins": begins,
        "sentence": (sentence.start, sentence.end, ends_sentence),
        "shape": shape,
        "model_path": model_path,
        "warnings": warnings,
    }


def make_silent_unit(warnings: tuple[str, ...]) -> Payload:
    """A unit without sound, at the end of a text: it only has ``warnings``."""
    return {"warnings": warnings}


def is_silent(unit: Payload) -> bool:
    return "ids" not in unit


def place_in_text(
    words: Sequence[WordSpan], locate: Callable[[Span], Span]
) -> list[tuple[int, int, int, int]]:
    """Each word's first and last id, and its first and last character in the request's text.

    What was written as one word is one, however many it is spoken as ("$3.50").
    """
    placed: list[tuple[int, int, int, int]] = []
    for word in words:
        span = locate(word.text)
        if placed and span.start < placed[-1][3]:
            first_id, _, first_char, last_char = placed.pop()
            placed.append((first_id, word.end, first_char, max(last_char, span.end)))
        else:
            placed.append((word.start, word.end, span.start, span.end))
    return placed
