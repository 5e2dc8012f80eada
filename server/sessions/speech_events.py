"""The events of a speech socket, as JSON objects: vLLM-Omni's fields, and ours beside them."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from engine.errors import OverloadedError, VoxloomError
from server.audio.av_writer import decoder_delay_ms
from server.audio.formats import AudioFormat
from server.sessions.spoken import WordTime, describe_word, to_ms
from server.sessions.utterance import Unit, Utterance


def error_event(error: VoxloomError, utterance: Utterance | None = None) -> dict[str, Any]:
    """``error``. Audio of a unit that did not come to its end is to be thrown away."""
    event: dict[str, Any] = {
        "type": "error",
        "message": error.message,
        "code": error.code,
        "param": error.param,
    }
    if isinstance(error, OverloadedError):
        event["retry_after_s"] = round(error.retry_after_s, 1)
    if utterance is not None:
        event["utterance_index"] = utterance.index
        if utterance.unit is not None:
            event |= {"partial_audio": True, "action": "discard"}
    return event


def audio_start(
    utterance: Utterance, unit: Unit, fmt: AudioFormat, rates: tuple[int, int], *, has_words: bool
) -> dict[str, Any]:
    """``audio.start``. ``rates``: of the engine's samples and of the answer, in Hz."""
    event: dict[str, Any] = {
        "type": "audio.start",
        **_place(utterance, unit),
        "sentence_text": utterance.text.slice(unit.first_char, unit.last_char),
        "start_char": unit.first_char,
        "start_ms": to_ms(unit.first_sample, rates[0]),
        "format": fmt.value,
        "sample_rate": rates[1],
    }
    if has_words:
        event["word_timestamps"] = True
        event["decoder_delay_ms"] = decoder_delay_ms(fmt, rates[1])
    return event


def audio_words(
    utterance: Utterance, unit: Unit, words: Iterable[WordTime], source_rate: int
) -> dict[str, Any]:
    """``audio.words``: words whose audio comes next. Times count from the unit's start."""
    return {
        "type": "audio.words",
        **_place(utterance, unit),
        "words": timed_words(utterance, unit, words, source_rate),
    }


def audio_chunk(
    utterance: Utterance,
    unit: Unit,
    data: bytes | memoryview,
    span: tuple[int, int],
    rates: tuple[int, int],
) -> dict[str, Any]:
    """``audio.chunk``: audio in base64. ``span``: its samples, counted from the unit's start."""
    event = {
        "type": "audio.chunk",
        **_place(utterance, unit),
        "chunk_id": unit.num_chunks,
        "chunk_start_ms": to_ms(span[0], rates[0]),
        "chunk_end_ms": to_ms(span[1], rates[0]),
        "sample_rate": rates[1],
        "audio_b64": base64.b64encode(data).decode("ascii"),
        "timestamps": None,
    }
    unit.num_chunks += 1
    return event


def all_words_chunk(utterance: Utterance, unit: Unit, rates: tuple[int, int]) -> dict[str, Any]:
    """The unit's last ``audio.chunk``: no audio, but all of its words."""
    end = utterance.num_samples - unit.first_sample
    event = audio_chunk(utterance, unit, b"", (end, end), rates)
    return event | {"timestamps": timed_words(utterance, unit, unit.words, rates[0])}


def audio_done(
    utterance: Utterance, unit: Unit, source_rate: int, **ending: bool
) -> dict[str, Any]:
    """``audio.done``; ``ending`` holds ``error`` or ``cancelled`` where that is why."""
    return {
        "type": "audio.done",
        **_place(utterance, unit),
        "sentence_text": utterance.text.slice(unit.first_char, unit.last_char),
        "total_bytes": unit.num_bytes,
        "duration_ms": to_ms(utterance.num_samples - unit.first_sample, source_rate),
        "error": False,
        **ending,
        **_warnings(unit.warnings),
    }


def session_done(utterance: Utterance, **ending: bool) -> dict[str, Any]:
    """``session.done``: the utterance is over; the next one may follow."""
    return {
        "type": "session.done",
        "utterance_index": utterance.index,
        "total_sentences": utterance.num_units,
        **ending,
        **_warnings(utterance.warnings),
    }


def input_cancelled(
    utterance: Utterance, played_ms: float | None, source_rate: int
) -> dict[str, Any]:
    """``input.cancelled``: what was sent, and what was heard if the listener told.

    Words count once they are complete. ``*_text`` is the utterance's text so far.
    """
    event: dict[str, Any] = {"type": "input.cancelled", "utterance_index": utterance.index}
    event |= _reached("sent", utterance, utterance.num_samples, source_rate)
    if played_ms is not None:
        heard = min(int(played_ms * source_rate / 1000), utterance.num_samples)
        event |= _reached("heard", utterance, heard, source_rate)
    return event


def timed_words(
    utterance: Utterance, unit: Unit, words: Iterable[WordTime], source_rate: int
) -> list[dict[str, Any]]:
    """Words as clients get them, in ms from the unit's start."""

    def text(word: WordTime) -> str:
        return utterance.text.slice(word.first_char, word.last_char)

    return [describe_word(word, text(word), source_rate, unit.first_sample) for word in words]


def _reached(name: str, utterance: Utterance, sample: int, source_rate: int) -> dict[str, Any]:
    num_chars = utterance.words.chars_until(sample)
    return {
        f"{name}_ms": to_ms(sample, source_rate),
        f"{name}_chars": num_chars,
        f"{name}_text": utterance.text.slice(0, num_chars),
    }


def _warnings(warnings: list[str]) -> dict[str, Any]:
    return {"warnings": warnings} if warnings else {}


def _place(utterance: Utterance, unit: Unit) -> dict[str, Any]:
    return {"utterance_index": utterance.index, "sentence_index": unit.index}
