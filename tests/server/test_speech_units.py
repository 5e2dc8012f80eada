"""How the engine's outputs become the coded pieces of units."""

from __future__ import annotations

import asyncio
import io
from array import array
from collections.abc import AsyncGenerator
from typing import Any

import pytest
import soundfile

from engine.errors import InvalidRequestError, StageFailedError
from engine.outputs import OmniRequestOutput
from server.audio.formats import AudioFormat
from server.encoding import EncoderPool
from server.metrics import ListenerMeter, ServerMetrics
from server.sessions.spoken import WordTime
from server.sessions.utterance import AudioPiece
from server.speech_plan import SessionPlan
from server.speech_units import UnitCoder, coded_pieces
from tests.server.audio.decoding import decode

RATE = 24000
STEP = 480
PLAN: dict[str, Any] = {
    "prompt": {},
    "sampling": None,
    "fmt": AudioFormat.PCM,
    "source_rate": RATE,
    "sample_rate": RATE,
    "stream_audio": True,
    "as_json": False,
    "has_words": True,
    "granularity": "sentence",
}


def output(
    level: int,
    sentence: tuple[int, int, bool] | None,
    *,
    num_samples: int = STEP,
    warnings: tuple[str, ...] = (),
    **payload: Any,
) -> OmniRequestOutput:
    """Audio that is all of one level."""
    pcm = memoryview(array("h", [level] * num_samples)) if num_samples else None
    if sentence is not None:
        payload["sentence"] = sentence
    return OmniRequestOutput("r", 1, pcm, 0, num_samples, RATE, payload, warnings=warnings)


def code(
    outputs: list[OmniRequestOutput],
    *,
    max_complete_s: float = 60.0,
    error: Exception | None = None,
    **plan: Any,
) -> list[AudioPiece]:
    """The pieces of an utterance; ``error`` is what the engine raises behind its outputs."""

    async def source() -> AsyncGenerator[OmniRequestOutput, None]:
        for each in outputs:
            yield each
        if error is not None:
            raise error

    async def collect() -> list[AudioPiece]:
        pool = EncoderPool(1)
        coder = UnitCoder(pool, SessionPlan(**PLAN | plan), max_complete_s)
        meter = ListenerMeter(ServerMetrics(), 0.0, RATE)
        try:
            return [piece async for piece in coded_pieces(source(), coder, meter)]
        finally:
            pool.close()

    return asyncio.run(collect())


TWO = [
    output(1, (0, 6, False), words=[(0, 100, 0, 6)]),
    output(2, (0, 6, True)),
    output(3, (7, 11, True), words=[(960, 1000, 7, 11)]),
]


def bounds(pieces: list[AudioPiece]) -> list[tuple[bool, bool, tuple[int, int]]]:
    return [(piece.opens, piece.ends, piece.span) for piece in pieces]


def test_sentences_are_units_with_a_beginning_and_an_end() -> None:
    pieces = code(TWO)

    assert bounds(pieces) == [
        (True, False, (0, 6)),
        (False, False, (0, 6)),
        (False, True, (0, 6)),
        (True, False, (7, 11)),
        (False, True, (7, 11)),
    ]
    assert [piece.num_samples for piece in pieces] == [STEP, STEP, 0, STEP, 0]
    assert [len(piece.words) for piece in pieces] == [1, 0, 0, 1, 0]


def test_without_granularity_the_utterance_is_one_unit() -> None:
    pieces = code(TWO, granularity="none")

    assert [(piece.opens, piece.ends) for piece in pieces] == [
        (True, False),
        (False, False),
        (False, False),
        (False, True),
    ]


def test_a_sentence_whose_end_was_not_said_ends_where_the_next_begins() -> None:
    pieces = code([output(1, (0, 6, False)), output(2, (7, 11, False))])

    assert bounds(pieces) == [
        (True, False, (0, 6)),
        (False, True, (0, 6)),
        (True, False, (7, 11)),
        (False, True, (7, 11)),
    ]


def test_without_streaming_each_unit_is_one_file_of_known_length() -> None:
    pieces = code(TWO, stream_audio=False, fmt=AudioFormat.WAV)

    assert bounds(pieces) == [(True, True, (0, 6)), (True, True, (7, 11))]
    assert [piece.num_samples for piece in pieces] == [2 * STEP, STEP]
    assert pieces[1].words == [WordTime(960, 1000, 7, 11)]
    first, second = (soundfile.read(io.BytesIO(piece.data), dtype="int16")[0] for piece in pieces)
    assert first.tolist() == [1] * STEP + [2] * STEP
    assert second.tolist() == [3] * STEP


@pytest.mark.parametrize("fmt", [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.FLAC])
def test_the_pieces_of_each_unit_make_a_file_of_their_own(fmt: AudioFormat) -> None:
    outputs = [output(900, (0, 6, False), num_samples=RATE), output(900, (0, 6, True)), TWO[2]]
    rate = 48000 if fmt is AudioFormat.OPUS else RATE
    pieces = code(outputs, fmt=fmt, sample_rate=rate)

    end = next(number for number, piece in enumerate(pieces) if piece.ends) + 1
    first = b"".join(piece.data for piece in pieces[:end])
    second = b"".join(piece.data for piece in pieces[end:])
    assert decode(first, fmt).duration_s == pytest.approx(1.02, abs=0.13)
    assert decode(second, fmt).duration_s == pytest.approx(0.02, abs=0.13)


@pytest.mark.parametrize("stream_audio", [True, False])
def test_a_warning_comes_with_the_next_piece(stream_audio: bool) -> None:
    outputs = [
        output(0, None, num_samples=0, warnings=("of the request",)),
        output(1, (0, 6, True)),
        output(3, (7, 11, True), warnings=("of the engine",)),
    ]
    outputs[1].payload["warnings"] = ["of the text"]
    pieces = code(outputs, stream_audio=stream_audio)

    told = {piece.span: piece.warnings for piece in pieces if piece.opens}
    assert told == {(0, 6): ("of the request", "of the text"), (7, 11): ("of the engine",)}
    assert not any(piece.warnings for piece in pieces if not piece.opens)


@pytest.mark.parametrize("stream_audio", [True, False])
def test_a_warning_behind_the_last_sound_comes_by_itself(stream_audio: bool) -> None:
    outputs = [output(1, (0, 6, True)), output(0, (0, 0, False), num_samples=0)]
    outputs[1].payload["warnings"] = ["of the rest"]
    *spoken, last = code(outputs, stream_audio=stream_audio)

    assert last.only_warns
    assert last.warnings == ("of the rest",)
    assert not any(piece.only_warns or piece.warnings for piece in spoken)


def test_outputs_without_audio_make_no_piece() -> None:
    assert code([output(0, (0, 6, False), num_samples=0)]) == []


def test_a_unit_that_is_too_long_for_one_file_is_refused() -> None:
    outputs = [output(1, (0, 6, False), num_samples=RATE)] * 3

    with pytest.raises(InvalidRequestError, match="too long for one file") as refused:
        code(outputs, stream_audio=False, max_complete_s=2.5)
    assert refused.value.param == "stream_audio"
    assert len(code(outputs, stream_audio=True, max_complete_s=2.5)) == 4


@pytest.mark.parametrize("stream_audio", [True, False])
def test_a_failure_of_the_engine_comes_through(stream_audio: bool) -> None:
    with pytest.raises(StageFailedError, match="lost"):
        code(TWO[:1], error=StageFailedError("lost"), stream_audio=stream_audio)
