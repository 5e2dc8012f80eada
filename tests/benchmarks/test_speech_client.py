from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from benchmarks.options import run_async
from benchmarks.speech_client import Answer, connect, speak_all

Handler = Callable[[dict[str, Any], asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


async def with_server(handle: Handler, work: Callable[[int], Awaitable[list[Answer]]]) -> Any:
    """Run ``work`` against a server on a free port that answers each request with ``handle``."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await handle(json.loads(await reader.readexactly(length)), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:  # it may be cancelled before it has heard that its client has gone
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        return await work(server.sockets[0].getsockname()[1])


async def echo(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    """Answer with the text itself, in two chunks."""
    text = request["input"].encode()
    writer.write(HEAD + b"1\r\n%c\r\n" % text[0])
    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(text) - 1, text[1:]))


async def refuse(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nbusy")


async def break_off(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"4\r\nabcd\r\n")
    writer.close()


async def ask_three(port: int) -> list[Answer]:
    return await speak_all(port, ["first", "second", "third"], 2, keep=True, seed=7)


def test_every_text_gets_its_own_answer_in_order() -> None:
    answers = run_async(with_server(echo, ask_three))
    assert [b"".join(answer.pcm) for answer in answers] == [b"first", b"second", b"third"]
    assert all(answer.is_ok and answer.sent_at <= answer.ended_at for answer in answers)
    assert [answer.num_bytes for answer in answers] == [5, 6, 5]
    assert all(0 <= answer.ttfa_s <= answer.ended_at - answer.sent_at for answer in answers)


def test_a_refusal_is_no_audio() -> None:
    answers = run_async(with_server(refuse, ask_three))
    assert [answer.status for answer in answers] == [429] * 3
    assert not any(answer.is_ok or answer.num_bytes for answer in answers)
    with pytest.raises(ValueError, match="status 429"):
        _ = answers[0].ttfa_s


def test_an_answer_that_breaks_off_is_not_whole_and_the_next_text_gets_a_new_connection() -> None:
    answers = run_async(with_server(break_off, ask_three))
    assert [answer.num_bytes for answer in answers] == [4] * 3
    assert not any(answer.is_whole for answer in answers)


def test_the_request_is_for_pcm_and_holds_the_fields_given() -> None:
    seen: list[dict[str, Any]] = []

    async def record(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await echo(request, writer)

    run_async(with_server(record, ask_three))
    assert {"input": "first", "response_format": "pcm", "seed": 7} in seen


def test_the_listener_hears_each_piece_and_an_abort_ends_the_answer() -> None:
    heard: list[bytes] = []

    async def stall(request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"4\r\nabcd\r\n")

    async def leave(port: int) -> list[Answer]:
        connection = await connect(port)

        def hear(now: float, data: bytes) -> None:
            heard.append(data)
            connection.abort()

        return [await connection.speak("text", on_audio=hear)]

    (answer,) = run_async(with_server(stall, leave))
    assert heard == [b"abcd"]
    assert not answer.is_whole
