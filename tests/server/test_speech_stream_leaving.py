"""Clients that leave, or stop reading, in the middle of a speech response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI

from server.app import create_app
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, Exchange, exchange
from tests.server.fake_engine import FakeEngine, Script
from tests.server.test_speech_stream import SPEECH, TEXT, assert_free, sample


class TestAClientThatLeaves:
    """The engine's generator is closed at once, and everything is free again."""

    @staticmethod
    def leave(
        engine: FakeEngine,
        when: Callable[[Exchange], None],
        fields: dict[str, Any],
        on_start: Callable[[Exchange], None] = lambda _: None,
    ) -> tuple[FastAPI, Answer]:
        app = create_app(engine)
        body = json.dumps({"input": TEXT, "response_format": "pcm"} | fields).encode()
        answer = asyncio.run(exchange(app, "POST", SPEECH, body, on_chunk=when, on_start=on_start))
        return app, answer

    @pytest.mark.parametrize("fields", [{}, {"stream": True}, {"response_format": "mp3"}])
    def test_while_chunks_flow(self, fields: dict[str, Any]) -> None:
        async def breathe(_: int) -> None:
            await asyncio.sleep(0)

        engine = FakeEngine(Script(before_chunk=breathe))

        app, answer = self.leave(engine, Exchange.leave, fields)

        assert not answer.is_whole
        assert engine.num_aborted == 1
        assert_free(engine)
        assert sample(app, 'voxloom_requests_total{outcome="disconnected"') == 1

    @pytest.mark.parametrize("at_chunk", [0, 3])
    @pytest.mark.parametrize("fields", [{}, {"stream": True}, {"stream": False}])
    def test_while_nothing_is_being_sent(self, at_chunk: int, fields: dict[str, Any]) -> None:
        async def hang(number: int) -> None:
            if number == at_chunk:
                asyncio.get_running_loop().call_soon(flights[0].leave)
                await asyncio.Event().wait()

        flights: list[Exchange] = []
        engine = FakeEngine(Script(before_chunk=hang))

        self.leave(engine, lambda _: None, fields, flights.append)

        assert engine.num_aborted == 1
        assert_free(engine)

    def test_before_the_engine_has_begun(self) -> None:
        engine = FakeEngine()

        self.leave(engine, lambda _: None, {}, Exchange.leave)

        assert_free(engine)


def test_a_client_that_reads_nothing_loses_its_request() -> None:
    class Stalled(Exchange):
        async def send(self, message: Any) -> None:
            await super().send(message)
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

    engine = FakeEngine()
    app = create_app(engine, ServerSettings(send_timeout_s=0.01))
    flight = Stalled(json.dumps({"input": TEXT}).encode(), 1000, lambda _: None)
    scope = {"type": "http", "method": "POST", "path": SPEECH, "headers": [], "query_string": b""}

    asyncio.run(app(scope, flight.receive, flight.send))

    assert not flight.answer.is_whole
    assert engine.num_aborted == 1
    assert_free(engine)
