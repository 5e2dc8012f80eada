"""The speech socket: reading while it sends, one utterance after another, and every way to end."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import soundfile

from engine.errors import StageFailedError
from server.app import create_app
from server.audio.formats import AudioFormat
from server.settings import ServerSettings
from tests.server.asgi_socket import AsgiSocket, connected
from tests.server.audio.decoding import decode
from tests.server.fake_engine import CHUNK_SAMPLES, RATE, SAMPLES_PER_CHAR, FakeEngine, Script, sine

STREAMED = {"stream_audio": True, "response_format": "pcm", "split_granularity": "sentence"}


def run(
    engine: FakeEngine, scenario: Callable[[AsgiSocket], Awaitable[None]], **settings: Any
) -> None:
    """A scenario with a connection; afterwards the engine has nothing open and all its tickets."""

    async def connect() -> None:
        app = create_app(engine, ServerSettings(access_log=False, **settings))
        async with connected(app) as socket:
            await scenario(socket)

    asyncio.run(connect())
    assert engine.streams == {}
    assert engine.admission.num_taken == 0


def audio_of(messages: list[Any]) -> bytes:
    return b"".join(message for message in messages if isinstance(message, bytes))


def types_of(messages: list[Any]) -> list[str]:
    return [message["type"] for message in messages if isinstance(message, dict)]


def duration_s(body: bytes, fmt: AudioFormat) -> float:
    if fmt is AudioFormat.PCM:
        return len(body) / 2 / RATE
    heard = decode(body, fmt)
    return len(heard.samples) / heard.sample_rate


def test_sentences_are_sent_as_they_are_made() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        for piece in ("Hello the", "re. You ", "too."):
            socket.say("input.text", text=piece)
        first = await socket.until("audio.done")
        socket.say("input.done")
        rest = await socket.until("session.done")

        assert types_of(first + rest) == ["audio.start", "audio.done"] * 2 + ["session.done"]
        assert first[0]["sentence_text"] == "Hello there."
        assert rest[0]["sentence_text"] == "You too."
        assert first[0]["sample_rate"] == RATE
        assert audio_of(first) == sine(12 * SAMPLES_PER_CHAR)
        assert rest[-2]["total_bytes"] == len(audio_of(rest)) == 8 * SAMPLES_PER_CHAR * 2

    run(FakeEngine(), scenario)


def test_a_client_of_the_defaults_gets_one_wav_per_utterance() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config")
        for number in range(2):
            socket.say("input.text", text="Hello there. You too.")
            socket.say("input.done")
            start, wav, done, ended = await socket.until("session.done")

            assert (start["format"], start["utterance_index"]) == ("wav", number)
            samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
            assert rate == RATE
            assert len(samples) == 20 * SAMPLES_PER_CHAR
            assert done["total_bytes"] == len(wav)
            assert ended["total_sentences"] == 1

    run(FakeEngine(), scenario)


@pytest.mark.parametrize("fmt", list(AudioFormat))
@pytest.mark.parametrize("stream_audio", [True, False])
def test_every_unit_is_a_file_of_its_own_in_every_format(
    fmt: AudioFormat, stream_audio: bool
) -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say(
            "session.config",
            response_format=fmt,
            stream_audio=stream_audio,
            split_granularity="sentence",
        )
        socket.say("input.text", text="Hello there, all of you. And good morning.")
        socket.say("input.done")
        for num_chars in (24, 17):
            messages = await socket.until("audio.done")
            body = audio_of(messages)
            wanted_s = num_chars * SAMPLES_PER_CHAR / RATE
            assert duration_s(body, fmt) == pytest.approx(wanted_s, abs=0.13)
            assert len(messages) > 3 or not stream_audio or fmt not in ("pcm", "wav")
            assert stream_audio or len(messages) == 3

    run(FakeEngine(), scenario)


def test_a_cancel_is_read_while_audio_is_sent_and_stops_it() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello there, this is a long sentence of many chunks. And")
        for _ in range(3):
            await socket.next()
        socket.say("input.cancel", played_ms=150)
        messages = await socket.until("session.done")

        assert types_of(messages) == ["audio.done", "input.cancelled", "session.done"]
        answer = messages[-2]
        assert answer["sent_ms"] == 1000 * 2 * CHUNK_SAMPLES / RATE
        assert not gate.is_set()
        gate.set()
        assert (answer["sent_text"], answer["heard_text"]) == ("Hello", "Hello")
        socket.say("input.text", text="New one.")
        socket.say("input.done")
        assert audio_of(await socket.until("session.done")) == sine(8 * SAMPLES_PER_CHAR)

    gate = asyncio.Event()
    num_chunks = 0

    async def before_chunk(_: int) -> None:
        nonlocal num_chunks
        num_chunks += 1
        if num_chunks == 3:
            await gate.wait()

    engine = FakeEngine(Script(before_chunk=before_chunk))
    run(engine, scenario)


def test_utterances_are_spoken_one_after_another() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        for text in ("One sentence.", "Another one.", "A third."):
            socket.say("input.text", text=text)
            socket.say("input.done")
        socket.say("session.close")
        for number in range(3):
            messages = await socket.until("session.done")
            assert {m["utterance_index"] for m in messages if isinstance(m, dict)} == {number}
        assert await socket.next() == 1000

    run(FakeEngine(), scenario)


def test_updates_and_flushes_reach_the_engine_in_their_place() -> None:
    engine = FakeEngine()

    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", voice="anna", **STREAMED)
        socket.say("input.text", text="Hello ")
        socket.say("session.update", voice="onyx", speed=1.5)
        socket.say("input.text", text="you")
        socket.say("input.flush")
        socket.say("input.done")
        await socket.until("session.done")

    run(engine, scenario)
    (stream,) = engine.ended
    assert (stream.prompt["voice"], stream.prompt["speed"]) == ("anna", 1.0)
    changes = {"voice": "ben", "speed": 1.5}
    assert stream.log == ["Hello ", ("update", changes), "you", ("flush", {}), ""]


async def stop_reading(socket: AsgiSocket) -> None:
    """From here on what the server sends waits."""
    socket.send_text("{")
    await socket.until("error")
    socket.reading.clear()


def test_a_client_that_does_not_read_holds_the_engine_back() -> None:
    num_chunks = 0

    async def count(_: int) -> None:
        nonlocal num_chunks
        num_chunks += 1

    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        await stop_reading(socket)
        socket.say("input.text", text="Hello there. " * 50)
        for _ in range(200):
            socket.say("input.text", text=5)
            await asyncio.sleep(0)
        assert num_chunks == 1
        assert socket.num_sends_waiting == 1
        socket.reading.set()
        assert audio_of(await socket.until("audio.done")) == sine(12 * SAMPLES_PER_CHAR)

    run(FakeEngine(Script(before_chunk=count)), scenario)


def test_a_client_that_reads_nothing_for_too_long_loses_its_session() -> None:
    aborted = asyncio.Event()

    class Noting(FakeEngine):
        async def abort(self, request_ids: list[str]) -> None:
            await super().abort(request_ids)
            aborted.set()

    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        await stop_reading(socket)
        socket.say("input.text", text="Hello there. And")
        await aborted.wait()

    run(Noting(), scenario, send_timeout_s=0.05)


@pytest.mark.parametrize("num_messages", range(6))
def test_a_client_that_leaves_leaves_nothing_behind(num_messages: int) -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello there. And more of it")
        for _ in range(num_messages):
            await socket.next()

    run(FakeEngine(), scenario)


@pytest.mark.parametrize("fail_at_chunk", [0, 2])
def test_a_failure_is_an_error_and_the_next_utterance_is_spoken(fail_at_chunk: int) -> None:
    engine = FakeEngine(Script(fail_at_chunk=fail_at_chunk, error=StageFailedError("it broke")))

    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello there.")
        socket.say("input.done")
        messages = await socket.until("session.done")
        (error,) = [m for m in messages if isinstance(m, dict) and m["type"] == "error"]
        assert (error["message"], error["code"]) == ("it broke", "stage_failed")
        assert (error.get("action") == "discard") == (fail_at_chunk > 0)
        assert messages[-1]["error"] is True
        engine.script.fail_at_chunk = None
        socket.say("input.text", text="Hello.")
        socket.say("input.done")
        assert "error" not in types_of(await socket.until("session.done"))

    run(engine, scenario)


def test_a_bug_tells_the_client_nothing_but_where_to_look() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello there.")
        socket.say("input.done")
        (error, _) = await socket.until("session.done")
        assert error["code"] == "internal_error"
        assert "secret" not in error["message"]

    run(FakeEngine(Script(fail_at_chunk=0)), scenario)


def test_a_full_server_refuses_an_utterance_not_the_session() -> None:
    engine = FakeEngine(max_running=1)

    async def scenario(socket: AsgiSocket) -> None:
        ticket = engine.admit()
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello.")
        error = await socket.next()
        assert isinstance(error, dict)
        assert error["code"] == "overloaded"
        assert error["retry_after_s"] >= 1
        socket.say("input.done")
        await socket.until("session.done")
        ticket.release()
        socket.say("input.text", text="Hello.")
        socket.say("input.done")
        assert audio_of(await socket.until("session.done")) == sine(6 * SAMPLES_PER_CHAR)

    run(engine, scenario)


def test_a_unit_that_is_too_long_for_one_file_is_refused() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config")
        socket.say("input.text", text="Hello there. " * 5)
        socket.say("input.done")
        error = (await socket.until("error"))[-1]
        assert error["param"] == "stream_audio"

    run(FakeEngine(), scenario, max_complete_s=0.5)


def test_clients_that_say_nothing_are_closed() -> None:
    async def unconfigured(socket: AsgiSocket) -> None:
        assert "session.config" in (await socket.until("error"))[-1]["message"]
        assert await socket.next() == 1008

    async def idle(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text="Hello")
        assert "Idle" in (await socket.until("error"))[-1]["message"]
        assert await socket.next() == 1008

    run(FakeEngine(), unconfigured, socket_config_timeout_s=0.02)
    run(FakeEngine(), idle, socket_idle_timeout_s=0.02)


def test_a_client_is_not_idle_while_it_plays_what_it_got() -> None:
    text = "Hello you, how are you?"

    async def scenario(socket: AsgiSocket) -> None:
        loop = asyncio.get_running_loop()
        # Before the first sound: what comes late to this test was not played late.
        begun_at = loop.time()
        socket.say("session.config", **STREAMED)
        socket.say("input.text", text=text)
        socket.say("input.done")
        await socket.until("session.done")
        await socket.until("error")
        assert loop.time() - begun_at > len(text) * SAMPLES_PER_CHAR / RATE

    run(FakeEngine(), scenario, socket_idle_timeout_s=0.02)


def test_binary_messages_and_garbage_are_answered_and_change_nothing() -> None:
    async def scenario(socket: AsgiSocket) -> None:
        socket.say("session.config", **STREAMED)
        socket.send_bytes(b"\x00\x01")
        socket.send_text("{")
        socket.say("no.such.type")
        socket.say("half a pair: \ud800")
        for _ in range(4):
            assert types_of([await socket.next()]) == ["error"]
        socket.say("input.text", text="Hello.")
        socket.say("input.done")
        assert audio_of(await socket.until("session.done"))

    run(FakeEngine(), scenario)


def test_what_a_socket_asks_for_is_part_of_its_clients_trace() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    engine = FakeEngine()

    async def scenario() -> None:
        app = create_app(engine, ServerSettings(access_log=False))
        async with connected(app, headers=[(b"traceparent", parent.encode())]) as socket:
            socket.say("session.config", **STREAMED)
            socket.say("input.text", text="Hello.")
            socket.say("input.done")
            await socket.until("audio.done")

    asyncio.run(scenario())
    assert [stream.trace for stream in engine.ended] == [{"traceparent": parent}]
