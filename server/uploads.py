"""Large bodies: none is kept without a ticket, and none holds its ticket without moving on."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.types import Message, Receive

from engine.errors import RequestTimeoutError, VoxloomError
from server.engine_life import ServedEngine
from server.engine_port import Ticket
from server.middleware import discard_body

# Modems were faster. Counted from the first byte on, with the timeout to begin with.
_MIN_BYTES_PER_S = 4096


async def admit_upload(request: Request, served: ServedEngine) -> Ticket:
    """A ticket, before any of the body is kept: so there are never more bodies than may be running
    or waiting. Raises ``OverloadedError`` or ``UnavailableError``.
    """
    engine = await served.ready()
    try:
        ticket: Ticket = engine.admit()
    except VoxloomError:
        await discard_body(request.scope, request.receive)
        raise
    return ticket


def impatient(receive: Receive, timeout_s: float, param: str) -> Receive:
    """``receive`` for an upload that holds a ticket which others could use.

    It raises ``RequestTimeoutError`` about ``param`` for one that stands still, or trickles.
    """
    loop = asyncio.get_running_loop()
    slow_at = loop.time() + timeout_s

    async def next_part() -> Message:
        nonlocal slow_at
        silent_at = loop.time() + timeout_s
        try:
            async with asyncio.timeout_at(min(silent_at, slow_at)):
                message = await receive()
        except TimeoutError:
            if silent_at <= slow_at:
                what = f"nothing of the upload came for {timeout_s:g} s"
            else:
                what = f"the upload came at less than {_MIN_BYTES_PER_S} bytes a second"
            raise RequestTimeoutError(what, param=param) from None
        slow_at += len(message.get("body", b"")) / _MIN_BYTES_PER_S
        return message

    return next_part
