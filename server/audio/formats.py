"""The audio formats of a response: names, content types and sample rates."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final


class AudioFormat(StrEnum):
    """A ``response_format``. All are mono."""

    MP3 = "mp3"  # MPEG layer 3, constant bit rate, no tags
    OPUS = "opus"  # Opus in Ogg
    AAC = "aac"  # AAC-LC in ADTS
    FLAC = "flac"
    WAV = "wav"  # RIFF, 16-bit PCM
    PCM = "pcm"  # 16-bit little-endian samples without a header


CONTENT_TYPES: Final[dict[AudioFormat, str]] = {
    AudioFormat.MP3: "audio/mpeg",
    AudioFormat.OPUS: "audio/ogg",
    AudioFormat.AAC: "audio/aac",
    AudioFormat.FLAC: "audio/flac",
    AudioFormat.WAV: "audio/wav",
    AudioFormat.PCM: "audio/pcm",
}

FILE_EXTENSIONS: Final[dict[AudioFormat, str]] = {fmt: fmt.value for fmt in AudioFormat}

MIN_SAMPLE_RATE: Final = 8000
MAX_SAMPLE_RATE: Final = 48000

_ANY_RATE: Final = range(MIN_SAMPLE_RATE, MAX_SAMPLE_RATE + 1)
# The rates of MPEG-1, -2 and -2.5 audio (layer 3) and of MPEG-4 AAC within the limits above.
_MPEG_RATES: Final = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
# RFC 6716, table 1: the audio bandwidths of Opus. Decoders put out 48 kHz whatever was coded.
_OPUS_RATES: Final = (8000, 12000, 16000, 24000, 48000)

_SUPPORTED_RATES: Final[dict[AudioFormat, Sequence[int]]] = {
    AudioFormat.MP3: _MPEG_RATES,
    AudioFormat.OPUS: _OPUS_RATES,
    AudioFormat.AAC: _MPEG_RATES,
    AudioFormat.FLAC: _ANY_RATE,
    AudioFormat.WAV: _ANY_RATE,
    AudioFormat.PCM: _ANY_RATE,
}

# The lowest rate used unless another is asked for. The codec's delay and padding have a fixed
# number of samples: at these rates they stay within 70 ms (see `server.audio.av_writer`).
_LOWEST_DEFAULT: Final[dict[AudioFormat, int]] = {AudioFormat.MP3: 24000, AudioFormat.AAC: 48000}


class UnsupportedSampleRateError(ValueError):
    """``sample_rate`` is not one that the format can carry."""

    def __init__(self, fmt: AudioFormat, sample_rate: int) -> None:
        rates = supported_sample_rates(fmt)
        allowed = (
            f"{rates.start} to {rates[-1]}"
            if isinstance(rates, range)
            else ", ".join(str(rate) for rate in rates)
        )
        super().__init__(
            f"sample_rate {sample_rate} is not supported for {fmt.value}; allowed: {allowed}"
        )


def supported_sample_rates(fmt: AudioFormat) -> Sequence[int]:
    """The rates in Hz that ``fmt`` can carry, ascending."""
    return _SUPPORTED_RATES[fmt]


def default_sample_rate(fmt: AudioFormat, source_rate: int) -> int:
    """The rate in Hz of a response in ``fmt`` when the client asks for none.

    The source's own rate for pcm, wav and flac; else the lowest that loses no bandwidth of the
    source, from 24000 up for mp3 and 48000 for aac.
    """
    lowest = max(source_rate, _LOWEST_DEFAULT.get(fmt, MIN_SAMPLE_RATE))
    return next((rate for rate in _SUPPORTED_RATES[fmt] if rate >= lowest), MAX_SAMPLE_RATE)


def resolve_sample_rate(fmt: AudioFormat, source_rate: int, sample_rate: int | None) -> int:
    """The rate in Hz of the response: ``sample_rate``, or the default when it is ``None``.

    Raises:
        UnsupportedSampleRateError: the format cannot carry ``sample_rate``; names those it can.
    """
    if sample_rate is None:
        return default_sample_rate(fmt, source_rate)
    if sample_rate not in supported_sample_rates(fmt):
        raise UnsupportedSampleRateError(fmt, sample_rate)
    return sample_rate
