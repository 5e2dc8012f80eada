"""A port in front of a server, whose connections can be cut."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def relaying(port: int, context: ssl.SSLContext | None = None) -> Iterator[Relay]:
    """A port that leads to the one given; with ``context`` it speaks TLS."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    relay = Relay(port, loop)
    try:
        asyncio.run_coroutine_threadsafe(relay.open(context), loop).result()
        yield relay
    finally:
        asyncio.run_coroutine_threadsafe(relay.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class Relay:
    """``port`` is its own one."""

    def __init__(self, target: int, loop: asyncio.AbstractEventLoop) -> None:
        self.port = 0
        self._target = target
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()
        self._ends: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """End all connections; new ones are taken."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    async def open(self, context: ssl.SSLContext | None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        await self._cut()

    async def _cut(self) -> None:
        for end in self._ends:
            end.transport.abort()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        # Whoever waits for the tasks waits until their connections are closed.
        task.add_done_callback(self._tasks.discard)
        ends = {writer}
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(inner_writer)
            self._ends |= ends
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, inner_writer))
                group.create_task(_copy(inner_reader, writer))
        finally:
            self._ends -= ends
            for end in ends:
                end.close()
                with suppress(OSError):
                    await end.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        else:
            writer.close()
