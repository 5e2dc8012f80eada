"""Writers for uncompressed audio: bare PCM and WAV."""

import struct
from typing import Final

from server.audio.resampler import Samples

BYTES_PER_SAMPLE: Final = 2
WAV_HEADER_SIZE: Final = 44
# What a WAV header says where the length is not known; readers then go on to the end of the file.
UNKNOWN_SIZE: Final = 0xFFFFFFFF

_PCM_TAG: Final = 1
_FMT_SIZE: Final = 16
# RIFF counts from behind its own size field, which ends at byte 8.
_RIFF_OFFSET: Final = WAV_HEADER_SIZE - 8


class PcmWriter:
    """int16 little-endian samples and nothing else."""

    def write(self, samples: Samples) -> bytes:
        return samples.astype("<i2", copy=False).tobytes()

    def finish(self) -> bytes:
        return b""

    def release(self) -> None:
        """Nothing is held."""


class WavWriter(PcmWriter):
    """A 44-byte header with the first samples, then PCM.

    ``num_samples`` is the length of the whole; ``None`` writes both sizes as 0xFFFFFFFF.
    """

    def __init__(self, sample_rate: int, num_samples: int | None) -> None:
        self._sample_rate = sample_rate
        self._num_samples = num_samples
        self._has_header = False

    def write(self, samples: Samples) -> bytes:
        data = super().write(samples)
        if self._has_header or not data:
            return data
        self._has_header = True
        return wav_header(self._sample_rate, self._num_samples) + data

    def finish(self) -> bytes:
        # Without a header so far there were no samples, so the length is known after all.
        return b"" if self._has_header else wav_header(self._sample_rate, 0)


def wav_header(sample_rate: int, num_samples: int | None) -> bytes:
    """The 44 bytes before mono 16-bit samples, after the RIFF/WAVE description of 1991.

    A length that 32 bits cannot hold is written as unknown.
    """
    data_size = UNKNOWN_SIZE if num_samples is None else num_samples * BYTES_PER_SAMPLE
    data_size = min(data_size, UNKNOWN_SIZE)
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        min(data_size + _RIFF_OFFSET, UNKNOWN_SIZE),
        b"WAVE",
        b"fmt ",
        _FMT_SIZE,
        _PCM_TAG,
        1,
        sample_rate,
        sample_rate * BYTES_PER_SAMPLE,
        BYTES_PER_SAMPLE,
        BYTES_PER_SAMPLE * 8,
        b"data",
        data_size,
    )
