"""The socket of a realtime session, in the test's own process."""

from __future__ import annotations

import asyncio
import base64
import threading
from typing import Any

import pytest

from server.app import create_app
from server.engine_life import ServedEngine
from server.sessions.realtime.events import read_event
from tests.server.asgi_socket import TIMEOUT_S, connected
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, telling

# In one event, near the largest there may be.
AUDIO = base64.b64encode(bytes(14 * 2**20)).decode()


def test_a_large_event_is_read_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun, loop_has_turned = threading.Event(), threading.Event()

    def read_slowly(text: str) -> Any:
        """Ends once the event loop has had a turn meanwhile."""
        has_begun.set()
        assert loop_has_turned.wait(TIMEOUT_S), "the event loop is held"
        return read_event(text)

    async def scenario() -> None:
        app = create_app(FakeEngine(), None, None, ServedEngine(FakeCascade(telling("Hi."))))
        async with connected(app, "/v1/realtime") as socket:
            await socket.until("session.created")
            audio = {"input": {"turn_detection": None}}
            socket.say("session.update", session={"type": "realtime", "audio": audio})
            await socket.until("session.updated")
            monkeypatch.setattr("server.talk.realtime_socket.read_event", read_slowly)
            socket.say("input_audio_buffer.append", audio=f"?{AUDIO}", event_id="large")
            assert await asyncio.to_thread(has_begun.wait, TIMEOUT_S)
            loop_has_turned.set()
            (error,) = await socket.until("error")
            assert (error["error"]["param"], error["error"]["event_id"]) == ("audio", "large")

    asyncio.run(scenario())
