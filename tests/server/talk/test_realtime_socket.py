"""The socket of a realtime session, in the test's own process."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from engine.outputs import OmniRequestOutput
from server.app import create_app
from server.engine_life import ServedEngine
from server.sessions.realtime.events import read_event
from server.settings import ServerSettings
from tests.server.asgi_socket import TIMEOUT_S, connected
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, telling

PATH = "/v1/realtime"
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
        async with connected(app, PATH) as socket:
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


class SlowToLetGo(FakeCascade):
    """Writes nothing down, and lets go of the first request that is aborted when it is told to."""

    def __init__(self) -> None:
        super().__init__(telling("Hi."))
        self.added: asyncio.Queue[str] = asyncio.Queue()
        self.aborted: list[str] = []
        self.is_aborting, self.may_let_go = asyncio.Event(), asyncio.Event()

    async def add_request_async(self, request_id: str, prompt: Any, **arguments: Any) -> None:
        self.added.put_nowait(request_id)

    async def add_streaming_update_async(
        self, request_id: str, prompt: dict[str, Any], *, resumable: bool = True
    ) -> None:
        """It hears, and says nothing of it."""

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        await asyncio.Event().wait()
        yield OmniRequestOutput(request_id, 0)

    async def abort(self, request_ids: list[str]) -> None:
        if not self.aborted:
            self.is_aborting.set()
            await self.may_let_go.wait()
        self.aborted += request_ids


def test_a_recording_of_an_item_whose_id_was_used_before_ends_with_the_session() -> None:
    audio = base64.b64encode(bytes(48_000)).decode()
    content = [{"type": "input_audio", "audio": audio}]
    item = {"type": "message", "role": "user", "id": "again", "content": content}

    async def scenario() -> None:
        cascade = SlowToLetGo()
        app = create_app(FakeEngine(), None, None, ServedEngine(cascade))
        async with connected(app, PATH) as socket:
            socket.say("conversation.item.create", item=item)
            first = await cascade.added.get()
            socket.say("conversation.item.delete", item_id="again")
            await cascade.is_aborting.wait()
            socket.say("conversation.item.create", item=item)
            second = await cascade.added.get()
            cascade.may_let_go.set()
            socket.say("conversation.item.delete", item_id="unknown")
            await socket.until("error")
        assert cascade.aborted == [first, second]

    asyncio.run(scenario())


class Waiting(logging.Handler):
    """Sets its event at a message that holds these words."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.has_come = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self.has_come.set()


def test_a_session_whose_client_reads_nothing_ends_and_says_why() -> None:
    log = logging.getLogger("voxloom.server")

    async def scenario() -> None:
        settings = ServerSettings(send_timeout_s=0.05)
        cascade = ServedEngine(FakeCascade(telling("Hi.")))
        app = create_app(FakeEngine(), settings, None, cascade)
        waiting = Waiting("its client reads nothing")
        log.addHandler(waiting)
        try:
            async with connected(app, PATH) as socket:
                await socket.until("session.created")
                socket.reading.clear()
                socket.say("session.update", session={"type": "realtime"})
                await waiting.has_come.wait()
        finally:
            log.removeHandler(waiting)

    asyncio.run(scenario())
