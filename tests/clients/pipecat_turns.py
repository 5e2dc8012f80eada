"""A Pipecat pipeline of one speech service, and what a listener behind it gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.tts_service import TTSService
from pipecat.workers.runner import WorkerRunner

RATE = 24000
_TIMEOUT_S = 60.0
# Pipecat gives a turn up that has been silent for three seconds, which is little on a busy machine.
PATIENCE_S = 30.0


@dataclass
class Turn:
    """What was heard of one context: its audio, and each word with its time in seconds."""

    context_id: str = ""
    audio: bytes = b""
    words: list[tuple[str, float]] = field(default_factory=list)


class Listener(FrameProcessor):
    """The end of the pipeline."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        self.frames.put_nowait(frame)
        await self.push_frame(frame, direction)


class Conversation:
    """Turns of a language model go in, speech comes out."""

    def __init__(self, worker: PipelineWorker, listener: Listener) -> None:
        self._worker = worker
        self._listener = listener

    async def say(self, tokens: Iterable[str]) -> None:
        """A turn, token by token."""
        text = [LLMTextFrame(token) for token in tokens]
        turn = [LLMFullResponseStartFrame(), *text, LLMFullResponseEndFrame()]
        await self._worker.queue_frames(turn)

    async def interrupt(self) -> None:
        """The user speaks; returns when the listener knows."""
        await self._worker.queue_frame(InterruptionFrame())
        while not isinstance(await self.next(), InterruptionFrame):
            pass

    async def next(self) -> Frame:
        frame = await self._listener.frames.get()
        assert not isinstance(frame, ErrorFrame), frame.error
        return frame

    async def first_audio(self) -> TTSAudioRawFrame:
        while not isinstance(frame := await self.next(), TTSAudioRawFrame):
            pass
        return frame

    async def turn(self) -> Turn:
        """What is heard until a context ends."""
        turn, first_pts = Turn(), None
        while not isinstance(frame := await self.next(), TTSStoppedFrame):
            if isinstance(frame, TTSAudioRawFrame):
                turn.audio += frame.audio
                turn.context_id = frame.context_id or ""
            elif isinstance(frame, TTSTextFrame):
                assert frame.pts is not None
                first_pts = frame.pts if first_pts is None else first_pts
                turn.words.append((frame.text, (frame.pts - first_pts) / 1e9))
        return turn


@asynccontextmanager
async def talking(service: TTSService) -> AsyncIterator[Conversation]:
    """A pipeline with that service, until it has ended by itself."""
    listener = Listener()
    worker = PipelineWorker(
        Pipeline([service, listener]),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
        params=PipelineParams(audio_out_sample_rate=RATE),
    )
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    async with asyncio.timeout(_TIMEOUT_S):
        running = asyncio.create_task(runner.run())
        try:
            yield Conversation(worker, listener)
            await worker.queue_frame(EndFrame())
            await running
        finally:
            if not running.done():
                await runner.cancel()
