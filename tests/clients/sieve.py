"""A proxy of a realtime server that leaves events of one type out."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

# The server's last event of an answer.
_LAST = "rate_limits.updated"
# The id of the item in the event that tells a client that no more of its turn will come.
END = "item_end"
_END_EVENT = {
    "type": "conversation.item.done",
    "event_id": "event_end",
    "item": {
        "id": END,
        "object": "realtime.item",
        "type": "message",
        "role": "system",
        "status": "completed",
        "content": [{"type": "input_text", "text": "."}],
    },
}


@dataclass
class Sieve:
    """``kinds``: the types of the server's events until the first answer had ended."""

    server_port: int
    left_out: str | None
    port: int = 0
    kinds: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _serve(self, client: ServerConnection) -> None:
        assert client.request is not None
        url = f"ws://127.0.0.1:{self.server_port}{client.request.path}"
        key = {"authorization": client.request.headers["authorization"]}
        async with connect(url, additional_headers=key, max_size=None) as server:
            down = asyncio.create_task(self._pass_down(server, client))
            with contextlib.suppress(ConnectionClosed):
                async for message in client:
                    await server.send(message)
        await down

    async def _pass_down(self, server: ClientConnection, client: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for message in server:
                kind = json.loads(message)["type"]
                if kind != self.left_out:
                    await client.send(message)
                if _LAST not in self.kinds:
                    self.kinds.append(kind)
                    if kind == _LAST:
                        await client.send(json.dumps(_END_EVENT))


@contextlib.asynccontextmanager
async def sieving(server_port: int, left_out: str | None) -> AsyncIterator[Sieve]:
    sieve = Sieve(server_port, left_out)
    async with serve(sieve._serve, "127.0.0.1", 0, max_size=None) as listener:
        sieve.port = next(iter(listener.sockets)).getsockname()[1]
        yield sieve
