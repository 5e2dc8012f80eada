"""What the client tests say, and how they look at what they hear."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from openai import OpenAI

from server.audio.formats import AudioFormat
from tests.e2e.server_process import ServerProcess
from tests.server.audio.decoding import Decoded, decode

Format: TypeAlias = Literal["mp3", "opus", "aac", "flac", "wav", "pcm"]
FORMATS: tuple[Format, ...] = get_args(Format)

TEXT = "The quick brown fox jumps over the lazy dog."
# Twenty minutes: it is still running when its client has read some of it.
LONG = "This is one of very many sentences that nobody will ever hear to the end. " * 300
PCM_RATE = 24000
# The data size of a WAV that is streamed. FFmpeg warns that the file is shorter, and plays it.
WAV_OF_UNKNOWN_SIZE = b"\xff\xff\xff\xff"


def open_client(server: ServerProcess, api_key: str = "any", max_retries: int = 0) -> OpenAI:
    """openai-python for ``server``."""
    address = f"http://127.0.0.1:{server.port}/v1"
    return OpenAI(base_url=address, api_key=api_key, max_retries=max_retries)


def hear(data: bytes, fmt: str | None = None) -> Decoded:
    """``data`` decoded; its container is recognised by its bytes unless ``fmt`` is pcm."""
    if fmt == AudioFormat.PCM:
        samples = np.frombuffer(data, "<i2") / 32768
        return Decoded(samples, PCM_RATE, 1, "s16le", [])
    return decode(data)


def check_speech(data: bytes, fmt: str, min_s: float, max_s: float) -> Decoded:
    """Assert that ``data`` is a clean file of that format, of that length, with a voice in it."""
    heard = hear(data, fmt)
    assert heard.container == {"opus": "ogg", "pcm": "s16le"}.get(fmt, fmt)
    assert heard.num_channels == 1
    assert heard.complaints == [] or data[40:44] == WAV_OF_UNKNOWN_SIZE
    assert min_s < heard.duration_s < max_s
    # Speech at a usual level has an RMS of 0.05 to 0.2 of full scale, with its pauses.
    assert 0.02 < float(np.sqrt(np.mean(heard.samples**2))) < 0.4
    return heard
