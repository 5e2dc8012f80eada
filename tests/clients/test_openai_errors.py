"""What openai-python raises when the server refuses, is busy or gives up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

import openai
import pytest
from openai import Stream

from tests.clients.conftest import KEY, QUIET
from tests.clients.speech import LONG, TEXT, open_client
from tests.e2e.server_process import ServerProcess, serving

RUNNING = 'voxloom_engine_requests{state="running"}'
FAILED = 'voxloom_engine_requests_ended_total{outcome="failed"}'
# Counted when all that a request held has been given back.
LEFT = 'voxloom_requests_total{outcome="disconnected",route="/v1/audio/speech"}'
OVERLOADED = 'voxloom_requests_total{outcome="overloaded",route="/v1/audio/speech"}'
ASKED = {"model": "tts-1", "voice": "alloy", "input": TEXT}


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"voice": "nobody"}, openai.BadRequestError, "voice", "invalid_value"),
        ({"voice": {"id": "nobody"}}, openai.BadRequestError, "voice", "invalid_value"),
        ({"speed": 5}, openai.BadRequestError, "speed", "invalid_value"),
        ({"input": "..."}, openai.BadRequestError, "input", "invalid_value"),
        ({"response_format": "ogg"}, openai.BadRequestError, "response_format", "invalid_value"),
        ({"model": "gpt-2"}, openai.NotFoundError, "model", "model_not_found"),
        ({"input": "a" * 1_000_001}, openai.APIStatusError, None, "payload_too_large"),
    ],
)
def test_a_refusal_says_what_is_wrong(
    client: openai.OpenAI,
    fields: dict[str, Any],
    error: type[openai.APIStatusError],
    param: str | None,
    code: str,
) -> None:
    with pytest.raises(error) as caught:
        client.audio.speech.create(**cast(Any, ASKED | fields))

    assert type(caught.value) is error
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id
    assert caught.value.request_id == caught.value.response.headers["x-request-id"]


def test_a_refusal_comes_before_a_streamed_body(client: openai.OpenAI) -> None:
    asked = client.audio.speech.with_streaming_response.create(
        model="tts-1", voice="nobody", input=TEXT
    )

    with pytest.raises(openai.BadRequestError, match="the voices are"), asked:
        pass


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="tts-1"):
        client.models.retrieve("org/unknown")


@pytest.mark.parametrize("key", ["wrong", KEY + "x"])
def test_a_wrong_key_is_an_authentication_error(locked_server: ServerProcess, key: str) -> None:
    with (
        open_client(locked_server, api_key=key) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.audio.speech.create(model="tts-1", voice="low", input=TEXT)

    assert caught.value.code == "invalid_api_key"
    assert key not in caught.value.message


def test_the_right_key_opens_the_server(locked_server: ServerProcess) -> None:
    with open_client(locked_server, api_key=KEY) as client:
        assert client.audio.speech.create(model="tts-1", voice="low", input=TEXT).content


@contextmanager
def held_slot(server: ServerProcess) -> Iterator[None]:
    """The server's one slot is taken inside the block, and free again behind it."""
    num_left = server.metric(LEFT)
    with (
        open_client(server) as client,
        client.audio.speech.with_streaming_response.create(
            model="tts-1", voice="low", input=LONG, response_format="pcm"
        ) as speech,
    ):
        # The reference matters: an iterator that is thrown away closes its response.
        audio = speech.iter_bytes(4800)
        assert next(audio)
        yield
    server.await_count(LEFT, num_left + 1)


def test_a_full_server_says_when_to_come_back(narrow_server: ServerProcess) -> None:
    with (
        held_slot(narrow_server),
        open_client(narrow_server) as client,
        pytest.raises(openai.RateLimitError) as caught,
    ):
        client.audio.speech.create(model="tts-1", voice="low", input=TEXT)

    assert caught.value.code == "overloaded"
    assert 1 <= int(caught.value.response.headers["retry-after"]) <= 120


def test_a_client_that_waits_as_told_is_served(narrow_server: ServerProcess) -> None:
    num_refused = narrow_server.metric(OVERLOADED)
    with ThreadPoolExecutor(1) as thread, open_client(narrow_server, max_retries=9) as client:
        with held_slot(narrow_server):
            started_at = time.monotonic()
            asked = thread.submit(
                client.audio.speech.create, model="tts-1", voice="low", input=TEXT
            )
            narrow_server.await_count(OVERLOADED, num_refused + 1)

        assert asked.result(timeout=300).content
    # Its own delay, without Retry-After, would have been half a second.
    assert time.monotonic() - started_at >= 1.0


def test_a_client_that_gives_up_frees_its_slot(
    client: openai.OpenAI, server: ServerProcess
) -> None:
    num_left = server.metric(LEFT)
    # As one file: nothing is sent before all of it has been made.
    with pytest.raises(openai.APITimeoutError):
        client.audio.speech.create(
            model="tts-1", voice="alloy", input=LONG, timeout=0.3, extra_body={"stream": False}
        )

    server.await_count(LEFT, num_left + 1)
    server.await_metric(RUNNING, 0)


def test_an_event_stream_that_fails_late_raises() -> None:
    environ = QUIET | {"VOXLOOM_REQUEST_TIMEOUT_S": "6"}
    with serving("--pipeline", "sine", environ=environ) as server, open_client(server) as client:
        events = client.post(
            "/audio/speech",
            body={"input": LONG, "stream_format": "sse", "response_format": "pcm"},
            cast_to=object,
            stream=True,
            stream_cls=Stream[object],
        )
        assert "audio" in cast("dict[str, Any]", next(events))
        # The server waits for this client until the request's time is up.
        server.await_count(FAILED, 1)

        with pytest.raises(openai.APIError) as caught:
            list(events)
    assert caught.value.code == "deadline_exceeded"
