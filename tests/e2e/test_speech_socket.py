"""The speech socket of a real server with the default voice, driven by a real WebSocket client."""

from __future__ import annotations

import io
import json
import socket as sockets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import soundfile
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.e2e.server_process import ServerProcess, serving

pytestmark = [pytest.mark.process, pytest.mark.model]

RATE = 24000
LIMIT_S = 120.0
SENTENCES = (
    "The harbour was quiet that morning, and nobody had seen them leave.",
    "It cost $3.50!",
    "By noon everyone in the village had an opinion.",
)
TEXT = " ".join(SENTENCES)
STREAMED = {"stream_audio": True, "response_format": "pcm", "split_granularity": "sentence"}
RUNNING = 'voxloom_engine_requests{state="running"}'


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(environ={"VOXLOOM_ACCESS_LOG": "false"}) as server:
        yield server


@contextmanager
def open_socket(server: ServerProcess, **config: Any) -> Iterator[ClientConnection]:
    address = f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream"
    socket = connect(address, max_size=None, open_timeout=LIMIT_S, close_timeout=LIMIT_S)
    with socket:
        say(socket, "session.config", **config)
        yield socket


def say(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind} | fields))


def read_until(socket: ClientConnection, kind: str) -> list[Any]:
    """Events and audio, up to an event of that type."""
    found: list[Any] = []
    while not (found and isinstance(found[-1], dict) and found[-1]["type"] == kind):
        message = socket.recv(LIMIT_S)
        found.append(json.loads(message) if isinstance(message, str) else message)
    return found


def send_until_closed(socket: ClientConnection, text: str) -> None:
    socket.send(text)
    read_until(socket, "never")


def pcm_of(messages: list[Any]) -> bytes:
    return b"".join(message for message in messages if isinstance(message, bytes))


def events_of(messages: list[Any], kind: str) -> list[dict[str, Any]]:
    return [m for m in messages if isinstance(m, dict) and m["type"] == kind]


def test_text_token_by_token_is_announced_by_sentence_and_sounds_as_a_whole(
    server: ServerProcess,
) -> None:
    whole = server.speak(TEXT, seed=7).read()
    with open_socket(server, seed=7, **STREAMED) as socket:
        for start in range(0, len(TEXT), 3):
            say(socket, "input.text", text=TEXT[start : start + 3])
        say(socket, "input.done")
        messages = read_until(socket, "session.done")

    starts = events_of(messages, "audio.start")
    assert tuple(start["sentence_text"] for start in starts) == SENTENCES
    assert pcm_of(messages) == whole
    sizes = [done["total_bytes"] for done in events_of(messages, "audio.done")]
    assert sum(sizes) == len(whole)
    offsets_ms = [sum(sizes[:number]) / 2 / RATE * 1000 for number in range(3)]
    assert [start["start_ms"] for start in starts] == pytest.approx(offsets_ms, abs=1)


def test_a_sentence_is_spoken_before_the_text_is_complete(server: ServerProcess) -> None:
    with open_socket(server, **STREAMED) as socket:
        say(socket, "input.text", text=f"{SENTENCES[0]} It")
        (done,) = events_of(read_until(socket, "audio.done"), "audio.done")
        assert done["sentence_text"] == SENTENCES[0]
        say(socket, "input.text", text=" cost")
        say(socket, "input.flush")
        (done,) = events_of(read_until(socket, "audio.done"), "audio.done")
        assert done["sentence_text"] == "It cost"


@pytest.mark.parametrize("spoken", ["Good morning. ", ""])
def test_what_is_skipped_behind_the_last_sound_is_told_at_the_end(
    server: ServerProcess, spoken: str
) -> None:
    with open_socket(server, **STREAMED) as socket:
        for text in (spoken, "中中"):
            say(socket, "input.text", text=text)
        say(socket, "input.done")
        messages = read_until(socket, "session.done")
        assert "skipped 2 characters of Han script" in messages[-1]["warnings"]
        assert len(events_of(messages, "audio.done")) == bool(spoken)
        say(socket, "input.text", text=SENTENCES[1])
        say(socket, "input.done")
        assert "warnings" not in read_until(socket, "session.done")[-1]


def test_clauses_are_spoken_when_nothing_else_is_to_be_heard(server: ServerProcess) -> None:
    with open_socket(server, **STREAMED | {"split_granularity": "clause"}) as socket:
        for word in SENTENCES[0].split(" "):
            say(socket, "input.text", text=f"{word} ")
        say(socket, "input.done")
        messages = read_until(socket, "session.done")

    texts = [start["sentence_text"] for start in events_of(messages, "audio.start")]
    assert texts == ["The harbour was quiet that morning,", "and nobody had seen them leave."]


def test_a_client_of_vllm_omnis_defaults_gets_one_wav(server: ServerProcess) -> None:
    with open_socket(server, model="tts-1", voice="alloy") as socket:
        say(socket, "input.text", text=TEXT)
        say(socket, "input.done")
        start, wav, done, ended = read_until(socket, "session.done")

    samples, rate = soundfile.read(io.BytesIO(wav), dtype="int16")
    assert rate == start["sample_rate"] == RATE
    assert 6.0 < len(samples) / rate < 14.0
    assert (start["sentence_text"], done["total_bytes"]) == (TEXT, len(wav))
    assert ended == {"type": "session.done", "utterance_index": 0, "total_sentences": 1}


def test_barge_in_stops_the_audio_and_tells_what_was_heard(server: ServerProcess) -> None:
    with open_socket(server, word_timestamps=True, audio_transport="binary", **STREAMED) as socket:
        say(socket, "input.text", text=" ".join([TEXT] * 20))
        heard = read_until(socket, "audio.start")
        while len(pcm_of(heard)) < RATE:
            heard += [m if isinstance(m, bytes) else json.loads(m) for m in [socket.recv(LIMIT_S)]]
        say(socket, "input.cancel", played_ms=400)
        rest = read_until(socket, "session.done")
        server.await_metric(RUNNING, 0)
        say(socket, "input.text", text="Yes?")
        say(socket, "input.done")
        answer = read_until(socket, "session.done")

    (told,) = events_of(rest, "input.cancelled")
    heard += rest
    assert told["sent_ms"] == pytest.approx(len(pcm_of(heard)) / 2 / RATE * 1000, abs=1)
    words = words_of(heard)
    sent = [word for word in words if word["end_ms"] <= told["sent_ms"]]
    assert told["sent_chars"] == sent[-1]["end_char"]
    assert told["heard_chars"] == [w for w in words if w["end_ms"] <= 400][-1]["end_char"]
    assert TEXT.startswith(told["heard_text"])
    assert events_of(answer, "audio.start")[0]["sentence_text"] == "Yes?"
    assert len(pcm_of(answer)) > RATE // 2


def words_of(messages: list[Any]) -> list[dict[str, Any]]:
    """The words of one utterance, in ms from its beginning."""
    words, origin_ms = [], 0
    for message in messages:
        if not isinstance(message, dict):
            continue
        origin_ms = message.get("start_ms", origin_ms)
        for word in message.get("words", ()):
            shifted = {key: word[key] + origin_ms for key in ("start_ms", "end_ms")}
            words.append(word | shifted)
    return words


def test_words_cover_the_text_as_it_was_written(server: ServerProcess) -> None:
    with open_socket(server, word_timestamps=True, **STREAMED) as socket:
        say(socket, "input.text", text=TEXT)
        say(socket, "input.done")
        messages = read_until(socket, "session.done")

    words = words_of(messages)
    assert [word["word"] for word in words] == TEXT.split(" ")
    assert [TEXT[word["start_char"] : word["end_char"]] for word in words] == TEXT.split(" ")
    starts = [word["start_ms"] for word in words]
    assert starts == sorted(starts)
    finals = [c["timestamps"] for c in events_of(messages, "audio.chunk") if c["timestamps"]]
    assert [word["word"] for unit in finals for word in unit] == TEXT.split(" ")


def test_a_voice_and_a_speed_can_change_in_mid_utterance(server: ServerProcess) -> None:
    """Voices differ in pace too, so the speed is compared within one of them."""
    with open_socket(server, voice="alloy", seed=3, **STREAMED) as socket:
        say(socket, "input.text", text=f"{SENTENCES[2]} ")
        say(socket, "session.update", speed=2.0)
        say(socket, "input.text", text=f"{SENTENCES[2]} ")
        say(socket, "session.update", voice="onyx")
        say(socket, "input.text", text=SENTENCES[2])
        say(socket, "input.done")
        units = [read_until(socket, "audio.done") for _ in range(3)]

    slow, fast, other = (unit[-1]["duration_ms"] for unit in units)
    assert slow > 1.5 * fast
    assert other != fast


def test_a_half_open_socket_and_an_abrupt_end_free_their_requests(server: ServerProcess) -> None:
    with open_socket(server, **STREAMED) as socket:
        say(socket, "input.text", text=" ".join([TEXT] * 20))
        read_until(socket, "audio.start")
        socket.socket.shutdown(sockets.SHUT_RDWR)
        with pytest.raises((ConnectionClosed, OSError)):
            read_until(socket, "session.done")

    server.await_metric(RUNNING, 0)
    assert len(server.speak("Hello.").read()) > RATE // 4


def test_a_message_that_is_too_large_harms_nobody_else(server: ServerProcess) -> None:
    """Beyond a session's own limit it is an error, beyond the server's the connection ends."""
    with open_socket(server, **STREAMED) as other, open_socket(server) as socket:
        say(socket, "input.text", text="x" * 200_000)
        (error,) = read_until(socket, "error")
        assert error["code"] == "payload_too_large"
        # The close frame (1009) is lost if the client is still sending when the server closes.
        with pytest.raises(ConnectionClosed):
            send_until_closed(socket, "x" * (22 * 1024 * 1024))
        say(other, "input.text", text="Hello.")
        say(other, "input.done")
        assert pcm_of(read_until(other, "session.done"))


def test_the_seam_between_sentences_is_silent(server: ServerProcess) -> None:
    with open_socket(server, **STREAMED) as socket:
        say(socket, "input.text", text=TEXT)
        say(socket, "input.done")
        messages = read_until(socket, "session.done")

    samples = np.frombuffer(pcm_of(messages), np.int16).astype(np.float64)
    for start in events_of(messages, "audio.start")[1:]:
        seam = round(start["start_ms"] * RATE / 1000)
        level = np.abs(samples[seam - RATE // 50 : seam + RATE // 50]).max()
        assert level < 0.05 * np.abs(samples).max()
