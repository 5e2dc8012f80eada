"""Decodes what an encoder wrote, as a player would: from a stream that cannot seek."""

import io
from dataclasses import dataclass

import av
import av.logging
import numpy as np
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from server.audio.encoder import open_encoder
from server.audio.formats import AudioFormat

SOURCE_RATE = 24000

DEMUXERS = {
    AudioFormat.MP3: "mp3",
    AudioFormat.OPUS: "ogg",
    AudioFormat.AAC: "aac",
    AudioFormat.FLAC: "flac",
    AudioFormat.WAV: "wav",
}
COMPRESSED = [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.AAC, AudioFormat.FLAC]
CONTAINED = [*COMPRESSED, AudioFormat.WAV]


class _Pipe:
    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(size)


@dataclass(frozen=True)
class Decoded:
    samples: NDArray[np.float64]  # shape [num_samples], full scale 1
    sample_rate: int
    num_channels: int
    container: str
    complaints: list[str]  # what FFmpeg logged from warning level up

    @property
    def duration_s(self) -> float:
        return self.samples.size / self.sample_rate


def decode(data: bytes, fmt: AudioFormat | None = None) -> Decoded:
    """Decode ``data``; without ``fmt`` the container is recognised by its bytes."""
    av.logging.set_level(av.logging.WARNING)
    try:
        with (
            av.logging.Capture(local=True) as log,
            av.open(_Pipe(data), "r", format=fmt and DEMUXERS[fmt]) as container,
        ):
            stream = container.streams[0]
            assert isinstance(stream, AudioStream)
            blocks = [_full_scale(frame) for frame in container.decode(stream)]
            return Decoded(
                np.concatenate([np.empty(0), *blocks]),
                stream.rate,
                stream.channels,
                container.format.name,
                [message for _, _, message in log],
            )
    finally:
        av.logging.set_level(None)


def _full_scale(frame: av.AudioFrame) -> NDArray[np.float64]:
    raw = frame.to_ndarray()[0]
    block: NDArray[np.float64] = raw.astype(np.float64)
    return block if raw.dtype.kind == "f" else block / (float(np.iinfo(raw.dtype).max) + 1)


def tone(num_samples: int, sample_rate: int = SOURCE_RATE) -> bytes:
    """A chirping int16 tone, so that a shift in time shows."""
    time_s = np.arange(num_samples) / sample_rate
    wave = 9000 * np.sin(2 * np.pi * (300 * time_s + 200 * time_s**2) + 0.5)
    return wave.astype("<i2").tobytes()


def encode(
    fmt: AudioFormat,
    pcm: bytes,
    *,
    chunk_samples: int = 480,
    source_rate: int = SOURCE_RATE,
    sample_rate: int | None = None,
    num_samples: int | None = None,
    streaming: bool = True,
) -> bytes:
    """The whole body for ``pcm``, fed in chunks of ``chunk_samples``."""
    encoder = open_encoder(
        fmt,
        source_rate=source_rate,
        sample_rate=sample_rate,
        num_samples=num_samples,
        streaming=streaming,
    )
    size = 2 * chunk_samples
    parts = [encoder.encode(pcm[start : start + size]) for start in range(0, len(pcm), size)]
    return b"".join([*parts, encoder.close()])
