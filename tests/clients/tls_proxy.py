"""TLS in front of a server, for clients that speak nothing else."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme


@contextmanager
def tls_in_front(port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """A port that speaks TLS for the one given, and the file of the authority to trust."""
    authority = trustme.CA()
    bundle = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    proxy = _Proxy(port)
    try:
        own_port = asyncio.run_coroutine_threadsafe(proxy.open(context), loop).result()
        yield own_port, bundle
    finally:
        asyncio.run_coroutine_threadsafe(proxy.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


class _Proxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, context: ssl.SSLContext) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, inner_writer))
                group.create_task(_copy(inner_reader, writer))
        finally:
            self._tasks.discard(task)
            for end in (writer, inner_writer):
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
