"""Speech as ElevenLabs' HTTP routes send it: bare, or in JSON with the times of its characters."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from engine.errors import InvalidRequestError
from engine.outputs import OmniRequestOutput
from server.body_sender import BodySender
from server.context import RequestContext
from server.elevenlabs_formats import OutputFormat
from server.elevenlabs_plan import renamed
from server.engine_port import Ticket
from server.pcm_source import PcmSource, limited
from server.sessions.char_times import CharClock, CharTimes
from server.sessions.spoken import TextLog, read_sentence, read_words
from server.speech_plan import SpeechPlan
from server.speech_stream import SpeechResponse, SpeechService

# Clients read line by line, and aiohttp's reader takes lines of at most 128 KiB.
_MAX_LINE_AUDIO_BYTES = 24 * 1024


class ElevenLabsResponse(SpeechResponse):
    """The bare audio."""

    def __init__(self, service: SpeechService, plan: SpeechPlan, output: OutputFormat) -> None:
        super().__init__(service, plan)
        self._output = output

    async def _generate(
        self, context: RequestContext, ticket: Ticket
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        try:
            async with aclosing(super()._generate(context, ticket)) as outputs:
                async for output in outputs:
                    self._note(output)
                    yield output
        except InvalidRequestError as error:
            raise renamed(error) from error

    def _note(self, output: OmniRequestOutput) -> None:
        """Look at an output before it is sent."""

    def _file_headers(self, source: PcmSource) -> dict[str, str]:
        return super()._file_headers(source) | {"content-type": self._output.content_type}


class TimedResponse(ElevenLabsResponse):
    """Audio in base64, with the times of the characters that are spoken in it."""

    def __init__(
        self, service: SpeechService, plan: SpeechPlan, output: OutputFormat, *, streamed: bool
    ) -> None:
        super().__init__(service, plan, output)
        self._is_streamed = streamed
        text = TextLog()
        text.append(plan.prompt["text"])
        self._clock = CharClock(text, pads=False)

    def _note(self, output: OmniRequestOutput) -> None:
        if output.audio is not None:
            payload = output.payload
            words = read_words(payload.get("words", ()))
            self._clock.add(words, output.num_samples, read_sentence(payload.get("sentence")))

    async def _deliver(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        if self._is_streamed:
            await self._send_lines(pcm, source, sender)
        else:
            await self._send_object(pcm, source, sender)

    async def _send_lines(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        """A JSON object a line; characters come with the audio in which their word begins."""
        async with aclosing(self._encoded(pcm)) as body:
            async for data in body:
                if not sender.is_started:
                    await sender.start(self._json_headers(source))
                times = self._timed(self._clock.take(begun_only=True))
                for start in range(0, len(data), _MAX_LINE_AUDIO_BYTES):
                    part = data[start : start + _MAX_LINE_AUDIO_BYTES]
                    await sender.write_audio(_json(part, times) + b"\n")
                    times = None
        if rest := self._clock.take_rest():
            await sender.write(_json(b"", self._timed(rest)) + b"\n")
        await sender.finish()

    async def _send_object(
        self, pcm: AsyncIterator[memoryview], source: PcmSource, sender: BodySender
    ) -> None:
        max_s = self._service.settings.max_complete_s
        async with (
            aclosing(limited(pcm, self._plan.source_rate, max_s)) as bounded,
            aclosing(self._encoded(bounded)) as body,
        ):
            parts = [part async for part in body]
        times = self._timed(self._clock.take_rest())
        # Half an hour of audio would hold up the event loop.
        answer = await asyncio.to_thread(lambda: _json(b"".join(parts), times))
        await sender.start(self._json_headers(source) | {"content-length": str(len(answer))})
        await sender.write_audio(answer)
        await sender.finish()

    def _json_headers(self, source: PcmSource) -> dict[str, str]:
        """ElevenLabs calls its lines of JSON this, too."""
        headers = super()._file_headers(source) | {"content-type": "application/json"}
        del headers["content-disposition"]
        return headers

    def _timed(self, times: CharTimes | None) -> dict[str, Any] | None:
        """Characters with their times in seconds from the beginning of the audio."""
        if times is None:
            return None
        rate = self._plan.source_rate
        return {
            "characters": times.chars,
            "character_start_times_seconds": [round(at / rate, 3) for at in times.starts],
            "character_end_times_seconds": [round(at / rate, 3) for at in times.ends],
        }


def _json(audio: bytes | memoryview, times: dict[str, Any] | None) -> bytes:
    """What is spoken is told in the characters that were written: both alignments are the same."""
    shown = json.dumps(times, separators=(",", ":")).encode("ascii")
    return b'{"audio_base64":"%b","alignment":%b,"normalized_alignment":%b}' % (
        base64.b64encode(audio),
        shown,
        shown,
    )
