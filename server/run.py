"""Running the application under uvicorn: its limits, its log, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import socket

import uvicorn
from fastapi import FastAPI

from engine.errors import UnavailableError
from server.engine_life import EngineLife
from server.http_protocol import BoundedHttpProtocol
from server.log import log_config
from server.settings import Settings

log = logging.getLogger("voxloom.server")

# After the drain deadline the engine has failed what was left; this is for those last bytes.
_LAST_BYTES_S = 3
# A burst of connections may be this long before clients see a refusal; Linux caps it at somaxconn.
_BACKLOG = 2048
# A client that lags behind what it is sent finds the ping only after that; uvicorn's own 20 s would
# end the session of a page on a busy machine.
_PONG_TIMEOUT_S = 60.0
# The largest message that a session takes: 15 MiB of audio in base64, as OpenAI has it.
_MAX_SOCKET_MESSAGE_BYTES = 21 * 1024 * 1024


class SpeechServer(uvicorn.Server):
    """Drains the engine as soon as it is told to stop, and stops if the engine cannot start.

    ``failure`` says why it stopped by itself, if it did.
    """

    def __init__(self, config: uvicorn.Config, life: EngineLife) -> None:
        super().__init__(config)
        self._life = life
        self._watch: asyncio.Task[None] | None = None
        self.failure: str | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._watch = asyncio.create_task(self._watch_start())

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """New requests are refused from here on, while the running ones are still being sent."""
        drain = asyncio.create_task(self._life.end())
        await super().shutdown(sockets)
        await drain
        if self._watch is not None:
            self._watch.cancel()

    async def _watch_start(self) -> None:
        try:
            await self._life.wait_ready()
        except UnavailableError as error:
            self.failure = error.message
            self.should_exit = True
        else:
            log.info("ready")


def serve(app: FastAPI, settings: Settings) -> str | None:
    """Serve until a signal; the reason if the server stopped by itself.

    Raises ``OSError`` if the address cannot be listened on; nothing has been started then.
    """
    listener = listen(settings.server.host, settings.server.port)
    host, port = listener.getsockname()[:2]
    log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)
    server = SpeechServer(uvicorn_config(app, settings), app.state.life)
    server.run([listener])
    return server.failure


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one, ``::`` listens for IPv4 too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server(
            (host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=host == "::"
        )
    except OSError as error:
        raise OSError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def uvicorn_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """uvicorn's own settings; the access log is ours."""
    return uvicorn.Config(
        app,
        host=settings.server.host,
        port=settings.server.port,
        http=BoundedHttpProtocol,
        ws="websockets-sansio",
        ws_max_size=_MAX_SOCKET_MESSAGE_BYTES,
        ws_ping_timeout=_PONG_TIMEOUT_S,
        # Speech does not get smaller by it, and deflating would hold up the event loop.
        ws_per_message_deflate=False,
        lifespan="on",
        access_log=False,
        server_header=False,
        timeout_keep_alive=round(settings.server.keep_alive_s),
        timeout_graceful_shutdown=round(settings.engine.drain_timeout_s) + _LAST_BYTES_S,
        log_config=log_config(settings.server.log_level),
    )
