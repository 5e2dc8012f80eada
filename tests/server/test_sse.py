"""Events on the wire."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator

import pytest

from server import sse


def test_an_event_is_one_line_of_ascii_json_after_data_and_a_space() -> None:
    data = sse.event({"text": "line\nbreak ☃"})

    assert data.startswith(b"data: {")
    assert data.endswith(b"}\n\n")
    assert data.count(b"\n") == 2
    assert json.loads(data.decode("ascii")[6:])["text"] == "line\nbreak ☃"


def test_a_delta_is_the_event_that_json_would_write() -> None:
    audio = bytes(range(256))

    delta = {"type": "speech.audio.delta", "audio": base64.b64encode(audio).decode()}
    assert sse.audio_delta(memoryview(audio)) == sse.event(delta)


def test_usage_adds_up() -> None:
    usage = json.loads(sse.audio_done(3, 4)[6:])["usage"]

    assert usage == {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}


@pytest.mark.parametrize("warnings", [[], ["skipped a word"]])
def test_the_last_event_has_warnings_only_if_there_are_any(warnings: list[str]) -> None:
    done = json.loads(sse.audio_done(3, 4, warnings)[6:])

    assert done.get("warnings", []) == warnings
    assert ("warnings" in done) == bool(warnings)


def test_idle_time_is_marked_and_no_item_is_lost() -> None:
    async def run() -> list[int | None]:
        marks = asyncio.Event()

        async def items() -> AsyncGenerator[int, None]:
            yield 1
            await marks.wait()
            yield 2

        seen: list[int | None] = []
        async for item in sse.mark_idle(items(), idle_s=0.001):
            seen.append(item)
            if item is None:
                marks.set()
        return seen

    seen = asyncio.run(run())
    assert [item for item in seen if item is not None] == [1, 2]
    assert None in seen


def test_what_the_items_raise_is_raised() -> None:
    async def items() -> AsyncGenerator[int, None]:
        yield 1
        raise KeyError("x")

    async def run() -> None:
        async for _ in sse.mark_idle(items(), idle_s=1.0):
            pass

    with pytest.raises(KeyError):
        asyncio.run(run())


def test_closing_early_ends_the_items() -> None:
    ended: list[bool] = []

    async def items() -> AsyncGenerator[int, None]:
        try:
            await asyncio.Event().wait()
            yield 1
        finally:
            ended.append(True)

    async def run() -> None:
        marked = sse.mark_idle(items(), idle_s=0.001)
        assert await anext(marked) is None
        await marked.aclose()

    asyncio.run(run())
    assert ended == [True]
