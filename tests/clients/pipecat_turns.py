"""A Pipecat pipeline, and what a listener in it gets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from pipecat.frames.frames import (
    EndFrame,
    ErrorFrame,
    Frame,
    InputAudioRawFrame,
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
from pipecat.workers.runner import WorkerRunner

from tests.clients.talking import pieces

RATE = 24000
_TIMEOUT_S = 300.0
# Pipecat gives a turn up that has been silent for three seconds, which is little on a busy machine.
PATIENCE_S = 30.0


SomeFrame = TypeVar("SomeFrame", bound=Frame)


@dataclass
class Turn:
    """What was heard of one context: its audio, and words with their times in seconds, if told."""

    context_id: str = ""
    audio: bytes = b""
    words: list[tuple[str, float]] = field(default_factory=list)


class Listener(FrameProcessor):
    """Notes what comes down to its place in the pipeline, but for the user's own voice."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: asyncio.Queue[Frame] = asyncio.Queue()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        is_news = direction is FrameDirection.DOWNSTREAM
        if is_news and not isinstance(frame, InputAudioRawFrame):
            self.frames.put_nowait(frame)
        await self.push_frame(frame, direction)


class Conversation:
    """Frames go in, and what the listener gets comes out."""

    def __init__(self, worker: PipelineWorker, listener: Listener) -> None:
        self._worker = worker
        self._listener = listener

    async def queue(self, *frames: Frame) -> None:
        await self._worker.queue_frames(frames)

    async def speak(self, pcm: bytes, rate: int = RATE) -> None:
        """The user's voice, s16le at ``rate`` Hz, as fast as somebody speaks."""
        async for piece in pieces(pcm, rate):
            await self.queue(InputAudioRawFrame(piece, rate, 1))

    async def say(self, tokens: Iterable[str]) -> None:
        """A turn of a language model, token by token."""
        text = [LLMTextFrame(token) for token in tokens]
        turn = [LLMFullResponseStartFrame(), *text, LLMFullResponseEndFrame()]
        await self.queue(*turn)

    async def interrupt(self) -> None:
        """The user speaks; returns when the listener knows."""
        await self.queue(InterruptionFrame())
        await self.until(InterruptionFrame)

    async def next(self) -> Frame:
        frame = await self._listener.frames.get()
        assert not isinstance(frame, ErrorFrame), frame.error
        return frame

    async def until(self, kind: type[SomeFrame]) -> SomeFrame:
        while not isinstance(frame := await self.next(), kind):
            pass
        return frame

    async def first_audio(self) -> TTSAudioRawFrame:
        return await self.until(TTSAudioRawFrame)

    async def turn(self) -> Turn:
        """What is heard until a context ends."""
        turn, first_pts = Turn(), None
        while not isinstance(frame := await self.next(), TTSStoppedFrame):
            if isinstance(frame, TTSAudioRawFrame):
                turn.audio += frame.audio
                turn.context_id = frame.context_id or ""
            elif isinstance(frame, TTSTextFrame) and frame.pts is not None:
                first_pts = frame.pts if first_pts is None else first_pts
                turn.words.append((frame.text, (frame.pts - first_pts) / 1e9))
        return turn


@asynccontextmanager
async def talking(
    *processors: FrameProcessor, behind: Sequence[FrameProcessor] = (), rate: int = RATE
) -> AsyncIterator[Conversation]:
    """A pipeline of these, the listener, and those behind it, until it has ended by itself.

    ``rate``: Hz of all sound.
    """
    listener = Listener()
    worker = PipelineWorker(
        Pipeline([*processors, listener, *behind]),
        cancel_on_idle_timeout=False,
        enable_rtvi=False,
        params=PipelineParams(audio_in_sample_rate=rate, audio_out_sample_rate=rate),
    )

    @worker.event_handler("on_pipeline_error")  # type: ignore[untyped-decorator]
    async def tell(worker: PipelineWorker, error: ErrorFrame) -> None:
        listener.frames.put_nowait(error)

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    async with asyncio.timeout(_TIMEOUT_S):
        running = asyncio.create_task(runner.run())
        try:
            yield Conversation(worker, listener)
            await worker.queue_frame(EndFrame())
        except BaseException:
            await runner.cancel()
            raise
        finally:
            await running
