"""Writers for compressed audio: FFmpeg's encoders and muxers, through PyAV, into memory.

What a listener may count on, in samples of the output rate (decoded minus true length):

- opus and flac: exact.
- mp3: the encoder's delay of 1105 samples and padding to whole frames (576 samples below 32 kHz,
  1152 from there on). The first frame holds nothing but delay; below 24 kHz, where a sample is
  long, it is left out. At most 70.5 ms from 16 kHz up, 138 ms at 8 kHz.
- aac: 1024 samples of priming and padding to whole frames of 1024: at most 43 ms at 48 kHz (the
  default), 86 ms at 24 kHz, 256 ms at 8 kHz. ADTS has no field to tell a decoder of either.

An open encoder holds (resident, measured with FFmpeg 8): flac 7 MB, aac 0.5, mp3 0.4, opus 0.05.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

import av
import numpy as np
from av.audio.stream import AudioStream

from server.audio.formats import AudioFormat
from server.audio.resampler import Samples

MP3_BIT_RATE: Final = 128_000
# MPEG-2.5 (below 16 kHz) ends at 64 kb/s for layer 3.
MP3_LOW_RATE_BIT_RATE: Final = 64_000
AAC_BIT_RATE: Final = 96_000
# LAME's 576 and the decoder's 529 (its technical FAQ).
MP3_DELAY: Final = 1105
# MPEG-2 and -2.5, which carry the rates below 32 kHz, have one granule of 576 samples a frame.
MP3_SHORT_FRAME: Final = 576
MP3_LONG_FRAME: Final = 1152
AAC_DELAY: Final = 1024
# One sample behind the priming frame and the first frame: three in all.
AAC_MIN_SAMPLES: Final = 1024 + 1
# An AAC frame of 1024 samples holds at most 6144 bits a channel (ISO/IEC 14496-3, 4.5.3).
AAC_MAX_BITS_PER_SAMPLE: Final = 6
OPUS_BIT_RATE: Final = 48_000

# Small units leave early; large ones compress better and are used where nobody waits.
OPUS_PAGE_US: Final = 20_000
OPUS_WHOLE_FILE_PAGE_US: Final = 1_000_000
FLAC_FRAME_MS: Final = 20
FLAC_WHOLE_FILE_FRAME_MS: Final = 100

# STREAMINFO (RFC 9639, 8.2) starts at byte 8; the last 36 bits of its first 18 bytes are the total.
_FLAC_TOTAL_HIGH: Final = 21
_FLAC_TOTAL_LOW: Final = slice(22, 26)
_FLAC_MAX_TOTAL: Final = (1 << 36) - 1


@dataclass(frozen=True)
class CodecSpec:
    """How FFmpeg is set up for one format."""

    container: str
    codec: str
    sample_format: str
    bit_rate: int | None = None
    container_options: dict[str, str] = field(default_factory=dict)
    codec_options: dict[str, str] = field(default_factory=dict)
    # Decoded samples before the first true one, for formats that cannot say so in the file.
    num_delay_samples: int = 0
    num_skipped_packets: int = 0
    # Shorter input is filled up with silence: players refuse a file without any frame, and they
    # recognise a format without a header by several frames in a row.
    num_min_samples: int = 1


def mp3_spec(sample_rate: int, streaming: bool) -> CodecSpec:
    """Constant bit rate, no tag, no info frame and no bit reservoir: bodies may be concatenated."""
    del streaming  # every frame stands for itself either way
    frame_size = MP3_LONG_FRAME if sample_rate >= 32000 else MP3_SHORT_FRAME
    num_skipped = 1 if sample_rate < 24000 else 0
    return CodecSpec(
        container="mp3",
        codec="libmp3lame",
        sample_format="s16p",
        bit_rate=MP3_BIT_RATE if sample_rate >= 16000 else MP3_LOW_RATE_BIT_RATE,
        container_options={"write_xing": "0", "id3v2_version": "0"},
        codec_options={"reservoir": "0", "compression_level": "5"},
        num_delay_samples=MP3_DELAY,
        num_skipped_packets=num_skipped,
        # One sample behind the first frame that is kept: there is a second.
        num_min_samples=max(1, frame_size * (1 + num_skipped) - MP3_DELAY + 1),
    )


def opus_spec(sample_rate: int, streaming: bool) -> CodecSpec:
    """Packets of 20 ms; each is a page of its own when streamed."""
    del sample_rate
    page_us = OPUS_PAGE_US if streaming else OPUS_WHOLE_FILE_PAGE_US
    return CodecSpec(
        container="ogg",
        codec="libopus",
        sample_format="s16",
        bit_rate=OPUS_BIT_RATE,
        container_options={"page_duration": str(page_us)},
    )


def aac_spec(sample_rate: int, streaming: bool) -> CodecSpec:
    """AAC-LC. The fast coder: the default one took 1.5 to 4 times the CPU here."""
    del streaming
    return CodecSpec(
        container="adts",
        codec="aac",
        sample_format="fltp",
        bit_rate=min(AAC_BIT_RATE, AAC_MAX_BITS_PER_SAMPLE * sample_rate),
        codec_options={"aac_coder": "fast"},
        num_delay_samples=AAC_DELAY,
        num_min_samples=AAC_MIN_SAMPLES,
    )


def flac_spec(sample_rate: int, streaming: bool) -> CodecSpec:
    """Frames of 20 ms when streamed, and no padding block before the first of them."""
    frame_ms = FLAC_FRAME_MS if streaming else FLAC_WHOLE_FILE_FRAME_MS
    return CodecSpec(
        container="flac",
        codec="flac",
        sample_format="s16",
        container_options={"metadata_header_padding": "0"},
        codec_options={"frame_size": str(sample_rate * frame_ms // 1000)},
    )


CODEC_SPECS: Final[dict[AudioFormat, Callable[[int, bool], CodecSpec]]] = {
    AudioFormat.MP3: mp3_spec,
    AudioFormat.OPUS: opus_spec,
    AudioFormat.AAC: aac_spec,
    AudioFormat.FLAC: flac_spec,
}


def decoder_delay_ms(fmt: AudioFormat, sample_rate: int) -> int:
    """What decoders put before the first true sample of a file at ``sample_rate`` Hz."""
    if fmt not in CODEC_SPECS:
        return 0
    spec = CODEC_SPECS[fmt](sample_rate, True)
    num_samples = spec.num_delay_samples - spec.num_skipped_packets * MP3_SHORT_FRAME
    return round(num_samples * 1000 / sample_rate)


class _Sink:
    """The file that the muxer writes to. It cannot seek, so nothing is patched afterwards."""

    def __init__(self) -> None:
        self.buffer = bytearray()

    def write(self, data: bytes) -> int:
        self.buffer += data
        return len(data)


class AvWriter:
    """Codes mono int16 at ``sample_rate`` (Hz) as ``fmt``, incrementally.

    ``bit_rate`` in bit/s replaces the format's own. The first bytes that leave hold audio: a header
    waits for it, so that a failure before the first audio is still a failure before the first byte.
    """

    def __init__(
        self,
        fmt: AudioFormat,
        sample_rate: int,
        num_samples: int | None,
        *,
        streaming: bool,
        bit_rate: int | None = None,
    ) -> None:
        spec = CODEC_SPECS[fmt](sample_rate, streaming)
        self._spec = spec if bit_rate is None else replace(spec, bit_rate=bit_rate)
        self._sample_rate = sample_rate
        self._sink = _Sink()
        self._container = av.open(
            self._sink, "w", format=self._spec.container, options=self._spec.container_options
        )
        self._stream = self._open_stream()
        self._container.start_encoding()
        if fmt is AudioFormat.FLAC and num_samples is not None:
            _set_flac_length(self._sink.buffer, num_samples)
        self._num_header_bytes = len(self._sink.buffer)
        self._frame_size = self._stream.codec_context.frame_size
        self._pending: Samples = np.empty(0, np.int16)
        self._num_coded = 0
        self._num_packets = 0

    def write(self, samples: Samples) -> bytes:
        """Take ``samples``, shape [num]; the bytes that they complete, possibly none."""
        self._feed(np.concatenate([self._pending, samples]))
        if len(self._sink.buffer) <= self._num_header_bytes:
            return b""
        return self._take()

    def finish(self) -> bytes:
        """The rest of the file. Call once; `release` afterwards."""
        num_missing = self._spec.num_min_samples - self._num_coded - self._pending.size
        self._feed(np.pad(self._pending, (0, max(0, num_missing))))
        if self._pending.size:
            self._code(self._pending)
        self._flush()
        self._container.close()
        return self._take()

    def release(self) -> None:
        """Free the encoder, finished or not. May be called again."""
        self._container.close()
        self._sink.buffer.clear()

    def _open_stream(self) -> AudioStream:
        spec = self._spec
        stream = self._container.add_stream(
            spec.codec, rate=self._sample_rate, options=spec.codec_options
        )
        assert isinstance(stream, AudioStream)
        context = stream.codec_context
        context.layout = "mono"
        context.format = spec.sample_format
        context.time_base = Fraction(1, self._sample_rate)
        context.thread_count = 1
        if spec.bit_rate is not None:
            context.bit_rate = spec.bit_rate
        return stream

    def _feed(self, samples: Samples) -> None:
        """Code the whole frames of ``samples``; what is left over is pending."""
        num_whole = samples.size - samples.size % self._frame_size
        for start in range(0, num_whole, self._frame_size):
            self._code(samples[start : start + self._frame_size])
        self._pending = samples[num_whole:].copy()

    def _code(self, samples: Samples) -> None:
        spec = self._spec
        frame = av.AudioFrame(format=spec.sample_format, layout="mono", samples=samples.size)
        frame.sample_rate = self._sample_rate
        frame.pts = self._num_coded
        plane = samples / np.float32(32768) if spec.sample_format == "fltp" else samples
        frame.planes[0].update(plane.tobytes())
        self._num_coded += samples.size
        for packet in self._stream.encode(frame):
            self._mux(packet)

    def _flush(self) -> None:
        delay = self._spec.num_delay_samples
        # LAME ends with a frame that may hold nothing but padding.
        num_needed = -(-(self._num_coded + delay) // self._frame_size)
        for packet in self._stream.encode(None):
            if not delay or self._num_packets < num_needed:
                self._mux(packet)

    def _mux(self, packet: "av.Packet[AudioStream]") -> None:
        self._num_packets += 1
        if self._num_packets > self._spec.num_skipped_packets:
            self._container.mux(packet)

    def _take(self) -> bytes:
        self._num_header_bytes = 0
        data = bytes(self._sink.buffer)
        self._sink.buffer.clear()
        return data


def _set_flac_length(header: bytearray, num_samples: int) -> None:
    """Write the total into STREAMINFO; one that does not fit stays 0, which means unknown."""
    if num_samples > _FLAC_MAX_TOTAL:
        return
    header[_FLAC_TOTAL_HIGH] = header[_FLAC_TOTAL_HIGH] & 0xF0 | num_samples >> 32
    header[_FLAC_TOTAL_LOW] = (num_samples & 0xFFFFFFFF).to_bytes(4, "big")
