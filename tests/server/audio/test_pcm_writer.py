import io
import struct
import wave

import numpy as np
import pytest

from server.audio.pcm_writer import PcmWriter, WavWriter, wav_header

SAMPLES = np.array([0, 1, -1, 32767, -32768], np.int16)


def test_pcm_is_the_samples_and_nothing_else() -> None:
    writer = PcmWriter()
    assert writer.write(SAMPLES) == bytes.fromhex("0000 0100 ffff ff7f 0080")
    assert writer.finish() == b""


def test_the_header_comes_once_and_with_the_first_samples() -> None:
    writer = WavWriter(24000, None)
    assert writer.write(SAMPLES[:0]) == b""
    assert writer.write(SAMPLES)[:4] == b"RIFF"
    assert writer.write(SAMPLES) == SAMPLES.tobytes()
    assert writer.finish() == b""


def test_an_unknown_length_is_written_as_such_in_both_fields() -> None:
    header = wav_header(24000, None)
    assert len(header) == 44
    assert struct.unpack_from("<I", header, 4) == (0xFFFFFFFF,)
    assert struct.unpack_from("<I", header, 40) == (0xFFFFFFFF,)


@pytest.mark.parametrize("num_samples", [2**31, 2**40])
def test_a_length_beyond_32_bits_is_written_as_unknown(num_samples: int) -> None:
    assert wav_header(24000, num_samples) == wav_header(24000, None)


@pytest.mark.parametrize("sample_rate", [8000, 24000, 44100, 48000])
def test_pythons_reader_sees_the_true_length(sample_rate: int) -> None:
    writer = WavWriter(sample_rate, SAMPLES.size)
    with wave.open(io.BytesIO(writer.write(SAMPLES) + writer.finish())) as reader:
        assert reader.getparams()[:4] == (1, 2, sample_rate, SAMPLES.size)
        assert reader.readframes(100) == SAMPLES.tobytes()


def test_no_samples_are_a_wav_of_length_zero() -> None:
    with wave.open(io.BytesIO(WavWriter(24000, None).finish())) as reader:
        assert reader.getnframes() == 0
