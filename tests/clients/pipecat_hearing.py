"""What a Pipecat pipeline with a service that hears writes down."""

from __future__ import annotations

import asyncio

import numpy as np
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import TranscriptionFrame
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameProcessor

from benchmarks.word_errors import num_errors, words
from tests.clients.pipecat_turns import talking
from tests.spoken import RATE, SENTENCES, silence, spoken

_SENTENCES = SENTENCES[:2]


def local_turns() -> VADProcessor:
    """Pipecat's own voice activity, for services that are told when a turn ends."""
    return VADProcessor(vad_analyzer=SileroVADAnalyzer())


async def check_hearing(*processors: FrameProcessor) -> None:
    """Each of two sentences is written down by itself, in order."""
    async with talking(*processors, rate=RATE) as conversation:
        speaking = asyncio.create_task(conversation.speak(_pcm(), RATE))
        for sentence in _SENTENCES:
            frame = await conversation.until(TranscriptionFrame)
            assert num_errors(words(sentence), words(frame.text)) <= 1, frame.text
        await speaking


def _pcm() -> bytes:
    """s16le: each sentence, and a pause behind it."""
    parts = [part for text in _SENTENCES for part in (spoken(text), silence(1.5))]
    return bytes((np.concatenate(parts) * 32767).astype("<i2").tobytes())
