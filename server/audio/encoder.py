"""Incremental encoders: int16 samples of one response in, bytes of its format out."""

from typing import Final, Protocol

import numpy as np

from server.audio.av_writer import AvWriter
from server.audio.formats import CONTENT_TYPES, AudioFormat, resolve_sample_rate
from server.audio.g711 import G711Law, G711Writer
from server.audio.pcm_writer import BYTES_PER_SAMPLE, PcmWriter, WavWriter
from server.audio.resampler import Resampler, Samples, num_resampled

_NO_SAMPLES: Final = np.empty(0, np.int16)


class Encoder(Protocol):
    """Codes one response. One task at a time may use it, from any thread.

    Exactly one of `close` and `discard` must be called at the end; further calls of either are
    harmless.
    """

    @property
    def content_type(self) -> str:
        """The media type of the bytes."""

    @property
    def sample_rate(self) -> int:
        """The rate of the coded samples in Hz."""

    def encode(self, pcm: bytes | memoryview) -> bytes:
        """Take whole int16 little-endian mono samples; the bytes that they complete, maybe none.

        Raises:
            ValueError: half a sample, or the encoder is closed.
            SampleCountError: more samples than were announced.
        """

    def close(self) -> bytes:
        """End the file: the rest of its bytes, once. Frees the encoder.

        Raises:
            SampleCountError: fewer samples came than were announced.
        """

    def discard(self) -> None:
        """Free the encoder without ending the file: nobody listens any more."""


class SampleCountError(ValueError):
    """The header announced another number of samples than came: the file is not whole."""

    def __init__(self, num_announced: int, num_samples: int) -> None:
        super().__init__(f"num_samples is {num_announced}, but {num_samples} samples came")
        self.num_announced = num_announced
        self.num_samples = num_samples


class _Writer(Protocol):
    """Codes samples of the output rate. `release` follows `finish` or replaces it."""

    def write(self, samples: Samples) -> bytes: ...

    def finish(self) -> bytes: ...

    def release(self) -> None: ...


class ResponseEncoder:
    """The `Encoder` of every format: counts, resamples, and hands on to the format's writer."""

    def __init__(
        self,
        content_type: str,
        sample_rate: int,
        writer: _Writer,
        resampler: Resampler | None,
        num_announced: int | None,
    ) -> None:
        self.content_type = content_type
        self.sample_rate = sample_rate
        self._writer: _Writer | None = writer
        self._resampler = resampler
        self._num_announced = num_announced
        self._num_samples = 0

    def encode(self, pcm: bytes | memoryview) -> bytes:
        if self._writer is None:
            raise ValueError("the encoder is closed")
        samples = _as_samples(pcm)
        self._count(samples.size)
        if self._resampler is not None:
            samples = self._resampler.write(samples)
        return self._writer.write(samples)

    def close(self) -> bytes:
        if self._writer is None:
            return b""
        try:
            self._check_whole()
            tail = self._resampler.finish() if self._resampler is not None else _NO_SAMPLES
            return self._writer.write(tail) + self._writer.finish()
        finally:
            self.discard()

    def discard(self) -> None:
        writer, self._writer, self._resampler = self._writer, None, None
        if writer is not None:
            writer.release()

    def _check_whole(self) -> None:
        if self._num_announced is not None and self._num_samples != self._num_announced:
            raise SampleCountError(self._num_announced, self._num_samples)

    def _count(self, num_samples: int) -> None:
        self._num_samples += num_samples
        if self._num_announced is not None and self._num_samples > self._num_announced:
            raise SampleCountError(self._num_announced, self._num_samples)


def open_encoder(
    fmt: AudioFormat,
    *,
    source_rate: int,
    sample_rate: int | None = None,
    num_samples: int | None = None,
    streaming: bool,
    bit_rate: int | None = None,
    law: G711Law | None = None,
) -> Encoder:
    """An encoder of mono int16 at ``source_rate`` (Hz) to ``fmt``.

    Args:
        fmt: the format to write.
        source_rate: the rate of the input in Hz.
        sample_rate: the rate of the output in Hz; ``None`` for the format's default.
        num_samples: how many input samples will come, where that is known: wav and flac then say so
            in their headers. The encoder holds the caller to it.
        streaming: whether someone waits for the first bytes. The input needed before them, at the
            default rate from 24 kHz: pcm and wav one sample, flac 20 ms, opus 40 ms, mp3 60 ms, aac
            100 ms. Otherwise opus and flac use larger units, which compress better.
        bit_rate: in bit/s, for mp3, opus and aac; ``None`` for the format's default.
        law: with pcm, how its samples are coded in 8 bits.

    Raises:
        UnsupportedSampleRateError: the format cannot carry ``sample_rate``.
        ValueError: ``source_rate`` or ``num_samples`` is out of range.
    """
    if source_rate < 1:
        raise ValueError(f"source_rate must be at least 1, not {source_rate}")
    if num_samples is not None and num_samples < 0:
        raise ValueError(f"num_samples must be at least 0, not {num_samples}")
    rate = resolve_sample_rate(fmt, source_rate, sample_rate)
    num_out = None if num_samples is None else num_resampled(num_samples, source_rate, rate)
    return ResponseEncoder(
        CONTENT_TYPES[fmt],
        rate,
        _open_writer(fmt, rate, num_out, streaming=streaming, bit_rate=bit_rate, law=law),
        Resampler(source_rate, rate) if rate != source_rate else None,
        num_samples,
    )


def _open_writer(
    fmt: AudioFormat,
    sample_rate: int,
    num_samples: int | None,
    *,
    streaming: bool,
    bit_rate: int | None,
    law: G711Law | None,
) -> _Writer:
    if fmt is AudioFormat.PCM:
        return PcmWriter() if law is None else G711Writer(law)
    if fmt is AudioFormat.WAV:
        return WavWriter(sample_rate, num_samples)
    return AvWriter(fmt, sample_rate, num_samples, streaming=streaming, bit_rate=bit_rate)


def _as_samples(pcm: bytes | memoryview) -> Samples:
    num_bytes = memoryview(pcm).nbytes
    if num_bytes % BYTES_PER_SAMPLE:
        raise ValueError(f"pcm must be whole 16-bit samples, not {num_bytes} bytes")
    return np.frombuffer(pcm, dtype="<i2")
