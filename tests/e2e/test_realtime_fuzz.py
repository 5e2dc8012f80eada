"""Whatever comes through real sockets, the server answers it, and others do not notice."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import threading
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect
from websockets.sync.connection import Connection

from tests.clients.talking import RUNNING, Talk, talking
from tests.server.sessions.realtime.test_session_fuzz import messages
from tests.spoken import RATE, SENTENCES, noise, silence, spoken

pytestmark = [pytest.mark.model, pytest.mark.process, pytest.mark.asr]

LIMIT_S = 120.0
# The server's own memory; what a session holds of its conversation goes with it.
MAX_GROWTH_BYTES = 100 * 1024 * 1024
moves = st.lists(
    messages | messages | st.text(max_size=20) | st.binary(max_size=9), min_size=25, max_size=40
)


@pytest.fixture(scope="module")
def talk() -> Iterator[Talk]:
    with talking() as talk:
        yield talk


@contextlib.contextmanager
def session(talk: Talk) -> Iterator[Connection]:
    address = f"{talk.base_url.replace('http', 'ws')}/realtime?model=cascade"
    with connect(address, max_size=None, open_timeout=LIMIT_S, close_timeout=LIMIT_S) as socket:
        assert read(socket)["type"] == "session.created"
        yield socket


def read(socket: Connection) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(socket.recv(LIMIT_S))
    assert isinstance(event["type"], str)
    assert event["event_id"]
    return event


def say(socket: Connection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind} | fields))


def until(socket: Connection, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while not found or found[-1]["type"] != kind:
        found.append(read(socket))
    return found


class Bystander(threading.Thread):
    """Somebody who talks with the server all the while, turn by turn, and checks each answer."""

    def __init__(self, talk: Talk) -> None:
        super().__init__()
        self._talk = talk
        self._is_over = threading.Event()
        self.num_turns = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            with session(self._talk) as socket:
                self._turn(socket)
                while not self._is_over.is_set():
                    self._turn(socket)
        except BaseException as error:
            self.failure = error

    def _turn(self, socket: Connection) -> None:
        text = f"Good morning, number {self.num_turns}."
        part = {"type": "input_text", "text": f"say {text}"}
        item = {"type": "message", "role": "user", "content": [part]}
        say(socket, "conversation.item.create", item=item)
        say(socket, "response.create")
        events = until(socket, "response.done")
        (answer,) = events[-1]["response"]["output"]
        assert answer["content"][0]["transcript"] == text
        assert any(event["type"] == "response.output_audio.delta" for event in events)
        self.num_turns += 1

    def leave(self) -> None:
        self._is_over.set()
        self.join(LIMIT_S)


def test_a_thousand_random_events_harm_nobody(talk: Talk) -> None:
    process = psutil.Process(talk.server.process.pid)
    memory: list[int] = []
    num_sent = 0

    @settings(
        max_examples=40,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(moves)
    def bother(sent: list[str | bytes]) -> None:
        nonlocal num_sent
        with session(talk) as socket:
            for move in sent:
                socket.send(move)
            num_sent += len(sent)
            # All that came before is answered by then, and the socket is open.
            say(socket, "the end of it", event_id="fence")
            while True:
                event = read(socket)
                if event["type"] == "error" and event["error"]["event_id"] == "fence":
                    break
        memory.append(process.memory_info().rss)

    bystander = Bystander(talk)
    bystander.start()
    try:
        bother()
    finally:
        bystander.leave()
    assert bystander.failure is None
    assert bystander.num_turns > 0
    assert num_sent > 1000
    assert memory[-1] - memory[len(memory) // 4] < MAX_GROWTH_BYTES
    talk.server.await_metric(RUNNING, 0)


def test_large_events_are_heard_and_broken_ones_named(talk: Talk) -> None:
    """Five minutes in one event, near the largest there may be; a small session goes on beside."""
    audio = base64.b64encode(bytes(14 * 2**20)).decode()
    bystander = Bystander(talk)
    bystander.start()
    try:
        with session(talk) as socket:
            # The input buffer of a client that ends its turns itself has a bound.
            audio_config = {"input": {"turn_detection": None}}
            say(socket, "session.update", session={"type": "realtime", "audio": audio_config})
            until(socket, "session.updated")
            for broken in (audio[:-3], "?" + audio[1:], audio + "====", "A" * 30 + "=" * 20):
                say(socket, "input_audio_buffer.append", audio=broken, event_id="broken")
                (error,) = until(socket, "error")
                assert (error["error"]["param"], error["error"]["event_id"]) == ("audio", "broken")
            say(socket, "session.update", session={"type": "realtime", "audio": VOICE})
            until(socket, "session.updated")
            for _ in range(3):
                say(socket, "input_audio_buffer.append", audio=audio)
            say(socket, "input_audio_buffer.clear")
            until(socket, "input_audio_buffer.cleared")
    finally:
        bystander.leave()
    assert bystander.failure is None
    talk.server.await_metric(RUNNING, 0)


VOICE = {"input": {"turn_detection": {"type": "server_vad"}}}


def wav(samples: Any) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as recording:
        recording.setparams((1, 2, RATE, 0, "NONE", ""))
        recording.writeframes((np.asarray(samples) * 32767).astype("<i2").tobytes())
    return file.getvalue()


def chat(talk: Talk, data: str) -> tuple[int, Any]:
    part = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": [part]}]})
    connection = http.client.HTTPConnection("127.0.0.1", talk.server.port, timeout=LIMIT_S)
    with contextlib.closing(connection):
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        return answer.status, json.load(answer)


def test_odd_audio_in_a_chat_is_written_down_or_refused(talk: Talk) -> None:
    whole = wav(spoken(SENTENCES[0]))
    for audio, expected in (
        (whole[: len(whole) * 3 // 5], "train"),
        (wav(silence(4.0)), ""),
        (wav(noise(4.0)), ""),
    ):
        status, answer = chat(talk, base64.b64encode(audio).decode())
        assert status == 200, answer
        heard = answer["choices"][0]["message"]["content"].removeprefix("You said:").strip()
        assert expected in heard if expected else heard == ""
    for broken in (base64.b64encode(whole).decode()[:-3], base64.b64encode(b"RIFF" * 9).decode()):
        status, answer = chat(talk, broken)
        assert status == 400
        assert answer["error"]["param"].startswith("messages[0].content[0].input_audio")
    talk.server.await_metric(RUNNING, 0)
