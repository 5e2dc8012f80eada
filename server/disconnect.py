"""Work that ends when its client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Receive


async def run_while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> bool:
    """Run ``work``; if the client leaves first, cancel it at once and wait until it has cleaned up.

    The client's leaving is watched for all the time, not only when something is sent. Returns
    whether ``work`` came to its end; raises what it raised. The request's body must have been read.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        await task
        return True
    finally:
        watch.cancel()
        task.cancel()
        await asyncio.wait((task, watch))


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
