"""What openai-python asks for, and gets."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
from openai import OpenAI, Stream

from server.audio.formats import CONTENT_TYPES, AudioFormat
from tests.clients.speech import FORMATS, LONG, TEXT, Format, check_speech, hear
from tests.e2e.server_process import ServerProcess
from tests.e2e.test_speech import OPENAI_VOICES

RUNNING = 'voxloom_engine_requests{state="running"}'
# What the text takes at the voice's own pace, in seconds.
PACE = (2.0, 4.5)
# An encoder's delay and padding may stay in the body; no container but these can cut them off.
PADDED = {"mp3": 0.07, "aac": 0.07}

Read: TypeAlias = Callable[[OpenAI, Format, Path], bytes]


def read_whole(client: OpenAI, fmt: Format, folder: Path) -> bytes:
    speech = client.audio.speech.create(
        model="tts-1", voice="alloy", input=TEXT, response_format=fmt, extra_body={"seed": 1}
    )
    speech.write_to_file(folder / "written")
    assert (folder / "written").read_bytes() == speech.content
    return speech.content


def read_pieces(client: OpenAI, fmt: Format, folder: Path) -> bytes:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format=fmt, extra_body={"seed": 1}
    ) as speech:
        assert speech.headers["content-type"] == CONTENT_TYPES[AudioFormat(fmt)]
        return b"".join(speech.iter_bytes(1024))


def read_file(client: OpenAI, fmt: Format, folder: Path) -> bytes:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=TEXT, response_format=fmt, extra_body={"seed": 1}
    ) as speech:
        speech.stream_to_file(folder / "streamed")
    return (folder / "streamed").read_bytes()


@pytest.fixture(scope="module")
def pcm(server: ServerProcess) -> bytes:
    """The samples that every format of ``TEXT`` with seed 1 carries."""
    return server.speak(TEXT, voice="alloy", seed=1).read()


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("read", [read_whole, read_pieces, read_file])
def test_every_format_is_as_long_as_its_samples(
    client: OpenAI, pcm: bytes, read: Read, fmt: Format, tmp_path: Path
) -> None:
    heard = check_speech(read(client, fmt, tmp_path), fmt, *PACE)

    padding_s = heard.duration_s - hear(pcm, "pcm").duration_s
    assert 0 <= padding_s <= PADDED.get(fmt, 0.0)


@pytest.mark.parametrize("voice", OPENAI_VOICES)
def test_each_of_openais_voices_speaks(client: OpenAI, voice: str) -> None:
    by_name, by_id = (
        client.audio.speech.create(
            model="tts-1",
            voice=cast(Any, name),
            input="Hello.",
            response_format="pcm",
            extra_body={"seed": 1},
        )
        for name in (voice, {"id": voice})
    )

    check_speech(by_name.content, "pcm", 0.25, 2.0)
    assert by_id.content == by_name.content


def test_speed_sets_the_duration(client: OpenAI) -> None:
    durations = [
        hear(
            client.audio.speech.create(
                model="tts-1", voice="alloy", input=TEXT, speed=speed, response_format="pcm"
            ).content,
            "pcm",
        ).duration_s
        for speed in (0.5, 1.0, 2.0)
    ]

    assert durations[0] == pytest.approx(2 * durations[1], rel=0.15)
    assert durations[2] == pytest.approx(durations[1] / 2, rel=0.15)


@pytest.mark.parametrize(
    "extra",
    [
        {"instructions": None},
        {"response_format": None, "speed": None, "stream_format": None},
        {"model": "gpt-4o-mini-tts-2025-12-15", "instructions": "Speak like a pirate."},
        {"model": "tts-1-hd", "some_new_option": {"a": 1}},
    ],
)
def test_fields_that_are_null_or_unknown_change_nothing(
    client: OpenAI, extra: dict[str, Any]
) -> None:
    speech = client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, extra_body=extra)

    check_speech(speech.content, "mp3", *PACE)


@pytest.mark.parametrize("fmt", FORMATS)
def test_events_carry_one_whole_file(client: OpenAI, pcm: bytes, fmt: Format) -> None:
    body = {"model": "gpt-4o-mini-tts", "voice": "alloy", "input": TEXT, "seed": 1}
    stream = client.post(
        "/audio/speech",
        body=body | {"response_format": fmt, "stream_format": "sse"},
        cast_to=object,
        stream=True,
        stream_cls=Stream[object],
    )
    *deltas, done = cast("list[dict[str, Any]]", list(stream))

    data = b"".join(base64.b64decode(delta["audio"]) for delta in deltas)
    check_speech(data, fmt, *PACE)
    num_tokens = -(-len(pcm) // 2400)  # one for each 50 ms
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert done["type"] == "speech.audio.done"
    assert done["usage"] == {
        "input_tokens": 11,
        "output_tokens": num_tokens,
        "total_tokens": 11 + num_tokens,
    }


def test_the_lines_of_an_event_stream_can_be_read_one_by_one(client: OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="alloy", input=TEXT, stream_format="sse"
    ) as speech:
        assert speech.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in speech.iter_lines() if line]

    assert all(line.startswith("data: {") for line in lines)
    assert "speech.audio.done" in lines[-1]


def test_audio_arrives_while_the_rest_is_still_being_made(
    client: OpenAI, server: ServerProcess
) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="alloy", input=LONG, response_format="pcm"
    ) as speech:
        # The reference matters: an iterator that is thrown away closes its response.
        audio = speech.iter_bytes(4800)
        assert next(audio)
        server.await_metric(RUNNING, 1)

    server.await_metric(RUNNING, 0)


def test_models_are_listed_and_described(client: OpenAI) -> None:
    listed = [model.id for model in client.models.list()]

    assert {"hibari", "tts-1", "tts-1-hd", "gpt-4o-mini-tts"} <= set(listed)
    assert client.models.retrieve("tts-1").id == "tts-1"


def test_a_request_says_its_id_and_time(client: OpenAI) -> None:
    raw = client.audio.speech.with_raw_response.create(
        model="tts-1", voice="alloy", input="Hello.", extra_headers={"x-request-id": "mine-1"}
    )

    assert raw.request_id == "mine-1"
    assert raw.headers["openai-processing-ms"].isdecimal()
