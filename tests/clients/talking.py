"""A server that talks, and a microphone for it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import soxr

from tests.e2e.server_process import ServerProcess, serving
from tests.language_models import ScriptedLlm, scripted_llm
from tests.spoken import RATE, spoken

PCM_RATE = 24000
RUNNING = 'voxloom_engine_requests{pipeline="cascade",state="running"}'
CHUNK_MS = 100
# An answer that goes on until it is interrupted, however fast it is spoken: its model never ends.
SENTENCE = "And so it goes on and on. "
ENDLESS = f"say {SENTENCE * 40}\nhang"


@dataclass(frozen=True)
class Talk:
    """A server whose language model answers by script, and that model."""

    server: ServerProcess
    llm: ScriptedLlm

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}/v1"


@contextmanager
def talking(
    tokens_per_s: float = 0, num_times: int = 1, *, environ: Mapping[str, str] | None = None
) -> Iterator[Talk]:
    with scripted_llm(tokens_per_s=tokens_per_s, num_times=num_times) as llm:
        own = {
            "VOXLOOM_THINKER_URL": llm.base_url,
            "VOXLOOM_THINKER_MODEL": "scripted",
            "VOXLOOM_ACCESS_LOG": "false",
        }
        with serving("--transcribe", "off", environ=own | dict(environ or {})) as server:
            yield Talk(server, llm)


def said(text: str, *, silence_s: float = 1.0) -> bytes:
    """s16le at 24 kHz: somebody says ``text``, and then nothing for a while."""
    speech = soxr.resample(spoken(text), RATE, PCM_RATE)
    pause = np.zeros(round(0.3 * PCM_RATE)), np.zeros(round(silence_s * PCM_RATE))
    samples = np.concatenate([pause[0], speech, pause[1]])
    pcm: bytes = (samples * 32767).astype("<i2").tobytes()
    return pcm


async def pieces(pcm: bytes, rate: int = PCM_RATE) -> AsyncIterator[bytes]:
    """s16le at ``rate`` Hz piece by piece, as fast as somebody speaks."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    step = rate * CHUNK_MS // 1000 * 2
    for first in range(0, len(pcm), step):
        yield pcm[first : first + step]
        due += CHUNK_MS / 1000
        await asyncio.sleep(max(due - loop.time(), 0))


async def microphone(pcm: bytes) -> AsyncIterator[str]:
    """``pieces`` in base64."""
    async for piece in pieces(pcm):
        yield base64.b64encode(piece).decode("ascii")


def audio_ms(events: list[Any]) -> float:
    """How much sound came in these events."""
    deltas = [e.delta for e in events if e.type == "response.output_audio.delta"]
    return sum(len(base64.b64decode(delta)) for delta in deltas) / (PCM_RATE * 2) * 1000
