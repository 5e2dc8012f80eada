"""From a piece of an utterance's audio to the messages that carry it."""

from __future__ import annotations

from collections.abc import Iterator

from server.sessions import speech_events as events
from server.sessions.effects import Effect, SendAudio, SendEvent
from server.sessions.utterance import AudioPiece, Unit, Utterance
from server.speech_plan import SessionPlan

# JSON is written on the event loop: a longer file goes in several events.
_MAX_EVENT_BYTES = 192 * 1024


def audio_effects(
    utterance: Utterance, piece: AudioPiece, plan: SessionPlan, now: float
) -> list[Effect]:
    """Count the piece, and send it: its unit's start, its words, its audio, its unit's end."""
    rates = (plan.source_rate, plan.sample_rate)
    first_sample = utterance.num_samples
    opens = piece.opens or utterance.unit is None
    unit = utterance.take_audio(piece, now)
    effects: list[Effect] = []
    if opens:
        start = events.audio_start(utterance, unit, plan.fmt, rates, has_words=plan.has_words)
        effects.append(SendEvent(start))
    if piece.data:
        span = (first_sample - unit.first_sample, utterance.num_samples - unit.first_sample)
        effects += _carriers(utterance, unit, piece.data, span, plan)
    if piece.ends:
        effects += end_unit(utterance, unit, plan)
    return effects


def end_unit(
    utterance: Utterance, unit: Unit, plan: SessionPlan, **ending: bool
) -> Iterator[Effect]:
    """The unit is over: by itself, or (``ending``) by an ``error`` or as it was ``cancelled``."""
    if plan.as_json and plan.has_words and not ending:
        rates = (plan.source_rate, plan.sample_rate)
        yield SendEvent(events.all_words_chunk(utterance, unit, rates))
    yield SendEvent(events.audio_done(utterance, unit, plan.source_rate, **ending))
    utterance.unit = None


def _carriers(
    utterance: Utterance,
    unit: Unit,
    data: bytes | memoryview,
    span: tuple[int, int],
    plan: SessionPlan,
) -> Iterator[Effect]:
    unit.num_bytes += len(data)
    words = unit.take_new_words() if plan.has_words else []
    if not plan.as_json:
        if words:
            yield SendEvent(events.audio_words(utterance, unit, words, plan.source_rate))
        yield SendAudio(data)
        return
    for number, (part, part_span) in enumerate(_parts(data, span)):
        event = events.audio_chunk(
            utterance, unit, part, part_span, (plan.source_rate, plan.sample_rate)
        )
        if words and number == 0:
            event["words"] = events.timed_words(utterance, unit, words, plan.source_rate)
        yield SendEvent(event)


def _parts(
    data: bytes | memoryview, span: tuple[int, int]
) -> Iterator[tuple[bytes | memoryview, tuple[int, int]]]:
    """The data in parts of bounded size, each with its share of the samples."""
    first, last = span
    begin = 0
    for part in parts_of(data):
        end = begin + len(part)
        share = [first + (last - first) * place // len(data) for place in (begin, end)]
        yield part, (share[0], share[1])
        begin = end


def parts_of(data: bytes | memoryview) -> Iterator[bytes | memoryview]:
    """The data in parts that an event may hold."""
    for begin in range(0, len(data), _MAX_EVENT_BYTES):
        yield data[begin : begin + _MAX_EVENT_BYTES]
