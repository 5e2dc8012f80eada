"""Server-sent events: their bytes, and the comments that keep an idle stream open."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, TypeVar

CONTENT_TYPE = "text/event-stream"
PING = b": ping\n\n"
# LiveKit gives up after 30 s without a byte; three pings fit in.
IDLE_S = 10.0

T = TypeVar("T")


def event(data: dict[str, Any]) -> bytes:
    """One event. The space after the colon is needed: some clients look for ``data: ``."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n\n"


def audio_delta(audio: bytes | memoryview) -> bytes:
    """``speech.audio.delta``; written by hand because base64 needs no escaping."""
    return b'data: {"type":"speech.audio.delta","audio":"' + base64.b64encode(audio) + b'"}\n\n'


def audio_done(
    num_input_tokens: int, num_output_tokens: int, warnings: Sequence[str] = ()
) -> bytes:
    """``speech.audio.done`` with its usage, and the warnings that came too late for the headers."""
    usage = {
        "input_tokens": num_input_tokens,
        "output_tokens": num_output_tokens,
        "total_tokens": num_input_tokens + num_output_tokens,
    }
    told = {"warnings": list(warnings)} if warnings else {}
    return event({"type": "speech.audio.done", "usage": usage, **told})


def timestamps(words: list[dict[str, Any]], decoder_delay_ms: int) -> bytes:
    """``speech.audio.timestamps``: words whose audio comes in the deltas after it."""
    told = {"words": words, "decoder_delay_ms": decoder_delay_ms}
    return event({"type": "speech.audio.timestamps", **told})


async def mark_idle(items: AsyncIterator[T], idle_s: float) -> AsyncGenerator[T | None, None]:
    """``items``, and None whenever none has come for ``idle_s`` seconds. Items are not None."""
    pending: asyncio.Future[T | None] | None = None
    try:
        while True:
            if pending is None:
                pending = asyncio.ensure_future(anext(items, None))
            await asyncio.wait((pending,), timeout=idle_s)
            if not pending.done():
                yield None
                continue
            item, pending = pending.result(), None
            if item is None:
                return
            yield item
    finally:
        if pending is not None:
            pending.cancel()
            await asyncio.wait((pending,))
