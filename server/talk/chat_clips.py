"""Sound in a chat's messages, for a model that hears it itself."""

from __future__ import annotations

import asyncio
import io
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from engine.errors import InvalidRequestError
from server.audio.decoder import SAMPLE_RATE, Samples
from server.decoding import DecoderPool
from server.talk.chat_plan import HeardPart

Clip: TypeAlias = NDArray[np.int16]

# A clip is held whole, 10 MB of it; no model of this kind hears longer ones.
MAX_CLIP_S = 300
# Of all clips of a request: 58 MB, about what its body may have, and more than such a model
# remembers. A small file can hold much sound.
MAX_CLIPS_S = 1800


async def read_clip(decoders: DecoderPool, part: HeardPart, num_before: int) -> Clip:
    """The part's sound, int16 [samples], mono at 16 kHz; the request's clips before it have
    ``num_before`` samples. Raises ``InvalidRequestError``.
    """
    reader = decoders.open(io.BytesIO(part.data), part.param)
    try:
        samples = await reader.read(MAX_CLIP_S * SAMPLE_RATE + 1)
    finally:
        reader.discard()
    if len(samples) > MAX_CLIP_S * SAMPLE_RATE:
        raise InvalidRequestError(
            f"{part.param} must be at most {MAX_CLIP_S} s long", param=part.param
        )
    if num_before + len(samples) > MAX_CLIPS_S * SAMPLE_RATE:
        raise InvalidRequestError(
            f"{part.param}: the messages may hold at most {MAX_CLIPS_S} s of sound in all",
            param=part.param,
        )
    return await asyncio.to_thread(_to_int16, samples)


def clip_ms(clip: Clip) -> float:
    return len(clip) * 1000 / SAMPLE_RATE


def _to_int16(samples: Samples) -> Clip:
    return np.rint(samples * 32768).clip(-32768, 32767).astype(np.int16)
