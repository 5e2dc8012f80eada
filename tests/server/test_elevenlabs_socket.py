"""ElevenLabs' sockets over ASGI: audio side by side, every way to end, and nothing left behind."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import StageFailedError
from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_socket import AsgiSocket, connected
from tests.server.fake_engine import RATE, SAMPLES_PER_CHAR, FakeEngine, Script, sine
from tests.server.sessions.test_elevenlabs_session_fuzz import frames

SINGLE = "/v1/text-to-speech/anna/stream-input"
MULTI = "/v1/text-to-speech/anna/multi-stream-input"
PCM = "?output_format=pcm_24000"


def run(
    engine: FakeEngine,
    path: str,
    scenario: Callable[[AsgiSocket], Awaitable[None]],
    **settings: Any,
) -> None:
    """A scenario with a connection; afterwards the engine has nothing open and all its tickets."""

    async def connect() -> None:
        app = create_app(engine, ServerSettings(access_log=False, **settings))
        async with connected(app, path) as socket:
            await scenario(socket)

    asyncio.run(connect())
    assert engine.streams == {}
    assert engine.admission.num_taken == 0


def say(socket: AsgiSocket, **fields: Any) -> None:
    socket.send_text(json.dumps(fields))


async def until_final(socket: AsgiSocket, name: str | None = None) -> list[dict[str, Any]]:
    """Messages up to the last one of a context."""
    found: list[dict[str, Any]] = []
    while not (found and found[-1].get("isFinal") and found[-1].get("contextId") == name):
        message = await socket.next()
        assert isinstance(message, dict), message
        found.append(message)
    return found


def audio_of(messages: list[dict[str, Any]], name: str | None = None) -> bytes:
    own = [message for message in messages if message.get("contextId") == name]
    return b"".join(base64.b64decode(message["audio"] or "") for message in own)


def text_of(messages: list[dict[str, Any]], name: str | None = None) -> str:
    own = [message for message in messages if message.get("contextId") == name]
    return "".join(c for message in own for c in (message["alignment"] or {"chars": []})["chars"])


def test_text_is_spoken_with_its_characters_and_the_socket_closes_by_itself() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        for text in (" ", "Hello ", "there. ", "You too.", ""):
            say(socket, text=text)
        messages = await until_final(socket)

        assert audio_of(messages) == sine(12 * SAMPLES_PER_CHAR) + sine(8 * SAMPLES_PER_CHAR)
        assert text_of(messages) == "Hello there. You too. "
        assert await socket.next() == 1000

    run(FakeEngine(), SINGLE + PCM, scenario)


def test_a_voice_and_what_the_address_says_reach_the_engine() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello.", voice_settings={"speed": 1.1})
        say(socket, text="")
        await until_final(socket)

    engine = FakeEngine()
    query = "?output_format=pcm_8000&model_id=eleven_flash_v2_5&language_code=en&auto_mode=true"
    run(engine, "/v1/text-to-speech/onyx/stream-input" + query, scenario)
    (stream,) = engine.ended
    assert (stream.prompt["voice"], stream.prompt["language"]) == ("ben", "en")
    assert stream.prompt["speed"] == 1.1
    assert ("flush", {}) in stream.log


@pytest.mark.parametrize(("name", "num_bytes"), [("pcm_8000", 2), ("ulaw_8000", 1)])
def test_the_format_is_the_one_of_the_address(name: str, num_bytes: int) -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello.", flush=True)
        say(socket, text="")
        wanted_s = 6 * SAMPLES_PER_CHAR / RATE
        assert len(audio_of(await until_final(socket))) == round(8000 * wanted_s) * num_bytes

    run(FakeEngine(), f"{SINGLE}?output_format={name}", scenario)


def test_contexts_are_sent_while_others_are_made() -> None:
    """The second context's audio comes although the first one's is not complete."""

    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello there.", context_id="a", flush=True)
        say(socket, text="You.", context_id="b", flush=True)
        say(socket, close_context=True, context_id="b")
        messages = await until_final(socket, "b")
        say(socket, text=" More.", context_id="a", flush=True)
        say(socket, close_context=True, context_id="a")
        messages += await until_final(socket, "a")

        assert audio_of(messages, "b") == sine(4 * SAMPLES_PER_CHAR)
        assert len(audio_of(messages, "a")) == 2 * 17 * SAMPLES_PER_CHAR
        say(socket, close_socket=True)
        assert await socket.next() == 1000

    run(FakeEngine(), MULTI + PCM, scenario)


def test_an_interrupted_context_is_silent_and_its_request_is_gone() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello there, this is a long sentence. And more", context_id="a")
        first = await socket.next()
        assert isinstance(first, dict)
        say(socket, close_context=True, context_id="a")
        rest = await until_final(socket, "a")
        gate.set()
        say(socket, text="New.", context_id="b", flush=True)
        say(socket, close_context=True, context_id="b")
        answer = await until_final(socket, "b")

        assert {message.get("contextId") for message in answer} == {"b"}
        assert audio_of(answer, "b") == sine(4 * SAMPLES_PER_CHAR)
        assert len(audio_of([first, *rest], "a")) < 2 * 37 * SAMPLES_PER_CHAR

    gate = asyncio.Event()

    async def before_chunk(number: int) -> None:
        if number == 2:
            await gate.wait()

    run(FakeEngine(Script(before_chunk=before_chunk)), MULTI + PCM, scenario)


def test_a_failure_of_the_engine_is_told_to_its_context_alone() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello there.", context_id="a", flush=True)
        messages = await until_final(socket, "a")
        assert messages[-2]["error"] == "stage_failed"
        engine.script.fail_at_chunk = None
        say(socket, text="You.", context_id="b", flush=True)
        say(socket, close_context=True, context_id="b")
        assert audio_of(await until_final(socket, "b"), "b") == sine(4 * SAMPLES_PER_CHAR)

    engine = FakeEngine(Script(fail_at_chunk=1, error=StageFailedError("broke")))
    run(engine, MULTI + PCM, scenario)


def test_a_full_server_is_told_and_the_socket_lives_on() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello.", context_id="a")
        say(socket, text="Hello.", context_id="b")
        error, final = await until_final(socket, "b")
        assert (error["error"], error["code"]) == ("overloaded", 1013)
        assert final["isFinal"]

    run(FakeEngine(max_running=1), MULTI + PCM, scenario)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/v1/text-to-speech/nobody/stream-input", "voice_id 'nobody'"),
        (f"{SINGLE}?output_format=wav_24000", "output_format must be one of mp3_22050_32"),
        (f"{SINGLE}?inactivity_timeout=200", "from 1 to 180"),
        (f"{SINGLE}?model_id=gpt-9", "known: sine"),
        (f"{SINGLE}?auto_mode=perhaps", "auto_mode must be true or false"),
        (f"{SINGLE}?seed=-1", "seed must be"),
        (f"{MULTI}?apply_text_normalization=off", "one of auto, on"),
    ],
)
def test_a_bad_address_is_told_and_closed(path: str, says: str) -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text=" ")
        error = await socket.next()
        assert isinstance(error, dict)
        assert says in error["message"]
        assert error["code"] == 1008
        assert await socket.next() == 1008

    run(FakeEngine(), path, scenario)


def test_a_bad_address_is_told_even_to_a_client_that_says_nothing() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        assert isinstance(await socket.next(), dict)
        assert await socket.next() == 1008

    path = "/v1/text-to-speech/nobody/multi-stream-input"
    run(FakeEngine(), path, scenario, socket_config_timeout_s=0.01)


def test_a_client_that_says_nothing_is_closed_when_its_own_time_is_over() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        say(socket, text="Hello")
        error = await socket.next()
        assert isinstance(error, dict)
        assert error["error"] == "input_timeout_exceeded"
        assert await socket.next() == 1008

    run(FakeEngine(), f"{SINGLE}?inactivity_timeout=1", scenario)


def test_the_first_message_may_bring_the_key() -> None:
    async def allowed(socket: AsgiSocket) -> None:
        say(socket, text=" ", xi_api_key="k")
        say(socket, text="Hello.")
        say(socket, text="")
        assert audio_of(await until_final(socket))

    async def refused(socket: AsgiSocket) -> None:
        say(socket, text="Hello.")
        error = await socket.next()
        assert isinstance(error, dict)
        assert error["error"] == "missing_api_key"
        assert await socket.next() == 1008

    async def late(socket: AsgiSocket) -> None:
        assert isinstance(await socket.next(), dict)
        assert await socket.next() == 1008

    run(FakeEngine(), SINGLE + PCM, allowed, api_keys=("k",))
    run(FakeEngine(), MULTI + PCM, refused, api_keys=("k",))
    run(FakeEngine(), MULTI + PCM, late, api_keys=("k",), socket_config_timeout_s=0.01)


def test_a_client_that_never_reads_holds_the_engine_back() -> None:
    """Each context waits for its turn to send: what is made and not sent stays bounded."""
    num_chunks = 0

    async def count(_: int) -> None:
        nonlocal num_chunks
        num_chunks += 1

    async def scenario(socket: AsgiSocket) -> None:
        say(socket, close_context=True, context_id="a")
        await until_final(socket, "a")
        socket.reading.clear()
        for name in "abcde":
            say(socket, text="A long sentence. " * 50, context_id=name, flush=True)
        for _ in range(300):
            say(socket, text="")
            await asyncio.sleep(0)
        assert num_chunks == 5
        assert socket.num_sends_waiting == 1
        socket.reading.set()
        say(socket, close_context=True, context_id="e")
        assert len(audio_of(await until_final(socket, "e"), "e")) == 2 * 50 * 16 * SAMPLES_PER_CHAR

    run(FakeEngine(Script(before_chunk=count)), MULTI + PCM, scenario)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(frames, max_size=30), st.sampled_from([SINGLE, MULTI]))
def test_random_frames_leave_nothing_behind(given_frames: list[str | bytes], path: str) -> None:
    async def scenario(socket: AsgiSocket) -> None:
        for frame in given_frames:
            if isinstance(frame, bytes):
                socket.send_bytes(frame)
            else:
                socket.send_text(frame)

    run(FakeEngine(), path + PCM, scenario)
