"""The response that speaks: from the engine's outputs to the client, until one of them ends.

Nothing is sent before the first coded audio is there, so everything that fails until then is a
real status code. What fails later ends visibly: an error event, or a body that is cut short.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.errors import VoxloomError
from engine.outputs import OmniRequestOutput
from server import sse
from server.audio.av_writer import decoder_delay_ms
from server.audio.formats import CONTENT_TYPES, FILE_EXTENSIONS
from server.body_sender import BodySender
from server.context import RequestContext, context_of
from server.disconnect import run_while_connected
from server.encoding import EncoderPool, encode_stream
from server.engine_port import EnginePort, Ticket
from server.errors import envelope, internal_error
from server.metrics import ListenerMeter, ServerMetrics
from server.middleware import StreamBrokenError
from server.pcm_source import PcmSource, chained, limited
from server.sessions.spoken import WordTime, describe_word, to_ms
from server.settings import ServerSettings
from server.speech_plan import SIZED_FORMATS, Delivery, SpeechPlan

log = logging.getLogger("voxloom.server")

# Proxies refuse headers of many kilobytes.
_MAX_WARNINGS_CHARS = 2000
_PRINTABLE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


@dataclass(frozen=True, slots=True)
class SpeechService:
    """What every speech response needs."""

    engine: EnginePort
    encoders: EncoderPool
    metrics: ServerMetrics
    settings: ServerSettings


class SpeechResponse(Response):
    """Submits its plan when it is sent, and closes the engine's generator whatever happens."""

    def __init__(self, service: SpeechService, plan: SpeechPlan) -> None:
        super().__init__()
        self._service = service
        self._plan = plan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not await run_while_connected(self._speak(scope, send), receive):
            context_of(scope).outcome = "disconnected"

    async def _speak(self, scope: Scope, send: Send) -> None:
        service, context = self._service, context_of(scope)
        meter = ListenerMeter(service.metrics, context.started_at, self._plan.source_rate)
        sender = BodySender(send, meter, service.settings.send_timeout_s)
        ticket = service.engine.admit()
        try:
            async with aclosing(self._generate(context, ticket)) as outputs:
                source = PcmSource(outputs, meter)
                async with aclosing(source.pieces()) as pcm:
                    await self._deliver(pcm, source, sender)
        except Exception as error:
            await self._fail(error, context, sender)
        finally:
            # The engine has done so, unless the generator was closed before it began.
            ticket.release()

    def _generate(
        self, context: RequestContext, ticket: Ticket
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        timeout_s = self._service.settings.request_timeout_s
        return self._service.engine.generate(
            context.engine_request_id(),
            self._plan.prompt,
            sampling_params_list=self._plan.sampling,
            ticket=ticket,
            deadline=None if timeout_s is None else time.monotonic() + timeout_s,
        )

    async def _deliver(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        match self._plan.delivery:
            case Delivery.EVENTS:
                await self._send_events(pcm, source, sender)
            case Delivery.STREAM:
                await self._send_stream(pcm, source, sender)
            case Delivery.COMPLETE:
                await self._send_complete(pcm, source, sender)
            case Delivery.BUFFER_IF_SHORT:
                await self._send_buffered(pcm, source, sender)
            case Delivery.WITH_WORDS:
                await self._send_with_words(pcm, source, sender)

    async def _send_stream(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        async with aclosing(self._encoded(pcm)) as body:
            async for data in body:
                if not sender.is_started:
                    await sender.start(self._file_headers(source))
                await sender.write_audio(data)
        await sender.finish()

    async def _send_events(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        num_told = 0
        async with (
            aclosing(self._encoded(pcm)) as body,
            aclosing(sse.mark_idle(body, sse.IDLE_S)) as parts,
        ):
            async for data in parts:
                if not sender.is_started:
                    num_told = len(source.warnings)
                    await sender.start(_event_headers(source))
                if self._plan.has_words and (words := source.take_words()):
                    await sender.write(
                        sse.timestamps(self._described(words), self._decoder_delay_ms)
                    )
                if data is None:
                    await sender.write(sse.PING)
                else:
                    await sender.write_audio(sse.audio_delta(data))
        num_output = self._plan.num_output_tokens(source.meter.audio_s)
        late = source.warnings[num_told:]
        await sender.write(sse.audio_done(self._plan.num_input_tokens, num_output, late))
        await sender.finish()

    async def _send_complete(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        max_s = self._service.settings.max_complete_s
        async with aclosing(limited(pcm, self._plan.source_rate, max_s)) as bounded:
            if self._plan.fmt in SIZED_FORMATS:
                await self._send_sized([piece async for piece in bounded], source, sender)
            else:
                await self._send_whole(self._encoded(bounded), source, sender)

    async def _send_buffered(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        held: list[memoryview] = []
        async for piece in pcm:
            held.append(piece)
            if source.meter.audio_s > self._service.settings.max_buffered_s:
                await self._send_stream(chained(held, pcm), source, sender)
                return
        await self._send_sized(held, source, sender)

    async def _send_with_words(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        max_s = self._service.settings.max_complete_s
        async with aclosing(limited(pcm, self._plan.source_rate, max_s)) as bounded:
            pieces = [piece async for piece in bounded]
        num_samples = source.meter.num_samples if self._plan.fmt in SIZED_FORMATS else None
        async with aclosing(self._encoded(chained(pieces), num_samples)) as coded:
            parts = [part async for part in coded]
        answer = {
            "format": self._plan.fmt.value,
            "sample_rate": self._plan.sample_rate,
            "duration_ms": to_ms(source.meter.num_samples, self._plan.source_rate),
            "decoder_delay_ms": self._decoder_delay_ms,
            "words": self._described(source.take_words()),
        }
        # Half an hour of audio would hold up the event loop.
        body = await asyncio.to_thread(_json_with_audio, parts, answer)
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        await sender.start(headers | warning_headers(source.warnings))
        await sender.write_audio(body)
        await sender.finish()

    @property
    def _decoder_delay_ms(self) -> int:
        return decoder_delay_ms(self._plan.fmt, self._plan.sample_rate)

    def _described(self, words: list[WordTime]) -> list[dict[str, Any]]:
        text, rate = self._plan.prompt["text"], self._plan.source_rate
        return [describe_word(w, text[w.first_char : w.last_char], rate) for w in words]

    async def _send_sized(
        self, pieces: list[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        """Code a file whose length is known, so that its header can say it."""
        body = self._encoded(chained(pieces), source.meter.num_samples)
        await self._send_whole(body, source, sender)

    async def _send_whole(
        self,
        body: AsyncGenerator[bytes | memoryview, None],
        source: PcmSource,
        sender: BodySender,
    ) -> None:
        """The parts are not joined: half an hour of audio would hold up the event loop."""
        async with aclosing(body):
            parts = [part async for part in body]
        length = sum(len(part) for part in parts)
        await sender.start(self._file_headers(source) | {"content-length": str(length)})
        for part in parts:
            await sender.write_audio(part)
        await sender.finish()

    def _encoded(
        self, pcm: AsyncIterator[memoryview], num_samples: int | None = None
    ) -> AsyncGenerator[bytes | memoryview, None]:
        return encode_stream(pcm, self._service.encoders.open(self._plan, num_samples))

    def _file_headers(self, source: PcmSource) -> dict[str, str]:
        extension = FILE_EXTENSIONS[self._plan.fmt]
        return {
            "content-type": CONTENT_TYPES[self._plan.fmt],
            "content-disposition": f'inline; filename="speech.{extension}"',
            **warning_headers(source.warnings),
        }

    async def _fail(self, error: Exception, context: RequestContext, sender: BodySender) -> None:
        """Before the first byte the handlers answer; after it the stream ends visibly."""
        if not sender.is_started:
            raise error
        is_expected = isinstance(error, VoxloomError | TimeoutError)
        log.error(
            "%s failed in mid-stream: %s",
            context.request_id,
            error or "its client reads nothing",
            exc_info=None if is_expected else error,
        )
        context.outcome = "broken"
        if self._plan.delivery is not Delivery.EVENTS or sender.is_stalled:
            raise StreamBrokenError from error
        shown = error if isinstance(error, VoxloomError) else internal_error(context.request_id)
        await sender.write(sse.event(envelope(shown)))
        await sender.finish()


def _event_headers(source: PcmSource) -> dict[str, str]:
    return {
        "content-type": sse.CONTENT_TYPE,
        "cache-control": "no-cache",
        # nginx collects a response before it passes it on, unless it is told not to.
        "x-accel-buffering": "no",
        **warning_headers(source.warnings),
    }


def _json_with_audio(parts: list[bytes | memoryview], answer: dict[str, Any]) -> bytes:
    """``answer`` as JSON, with the audio in base64 before the rest."""
    audio = base64.b64encode(b"".join(parts))
    rest = json.dumps(answer, separators=(",", ":")).encode("ascii")
    return b'{"audio":"' + audio + b'",' + rest[1:]


def warning_headers(warnings: tuple[str, ...]) -> dict[str, str]:
    """The warnings, separated by ``; ``, with what is not printable ASCII percent-encoded."""
    if not warnings:
        return {}
    joined = "; ".join(warnings).encode("utf-8", "replace")
    text = quote(joined, safe=_PRINTABLE)[:_MAX_WARNINGS_CHARS].strip()
    return {"x-voxloom-warnings": text}
