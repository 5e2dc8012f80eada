"""The socket of a realtime session, in the test's own process."""

from __future__ import annotations

import asyncio
import base64

from server.app import create_app
from server.engine_life import ServedEngine
from tests.server.asgi_socket import connected
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, telling

# In one event, near the largest there may be.
AUDIO = base64.b64encode(bytes(14 * 2**20)).decode()


def test_a_large_event_is_read_while_others_are_served() -> None:
    async def scenario() -> None:
        app = create_app(FakeEngine(), None, None, ServedEngine(FakeCascade(telling("Hi."))))
        num_turns = 0

        async def tick() -> None:
            nonlocal num_turns
            while True:
                await asyncio.sleep(0)
                num_turns += 1

        async with connected(app, "/v1/realtime") as socket:
            await socket.until("session.created")
            audio = {"input": {"turn_detection": None}}
            socket.say("session.update", session={"type": "realtime", "audio": audio})
            await socket.until("session.updated")
            ticking = asyncio.create_task(tick())
            socket.say("input_audio_buffer.append", audio=f"?{AUDIO}", event_id="large")
            (error,) = await socket.until("error")
            assert (error["error"]["param"], error["error"]["event_id"]) == ("audio", "large")
            # The event loop turned for others all the while; read on it, it takes two turns.
            assert num_turns > 100
            ticking.cancel()

    asyncio.run(scenario())
