"""G.711 against FFmpeg's decoders, which share nothing with our tables."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream
from numpy.typing import NDArray

from server.audio.encoder import open_encoder
from server.audio.formats import AudioFormat
from server.audio.g711 import G711Law, G711Writer, decode_g711

ALL = np.arange(-32768, 32768).astype(np.int16)
DECODERS = {G711Law.ULAW: "mulaw", G711Law.ALAW: "alaw"}


def decoded(data: bytes, law: G711Law) -> NDArray[np.int64]:
    options = {"sample_rate": "8000"}
    with av.open(io.BytesIO(data), "r", format=DECODERS[law], options=options) as container:
        stream = container.streams[0]
        assert isinstance(stream, AudioStream)
        blocks = [frame.to_ndarray()[0] for frame in container.decode(stream)]
    samples: NDArray[np.int64] = np.concatenate(blocks).astype(np.int64)
    return samples


@pytest.mark.parametrize("law", G711Law)
def test_every_sample_comes_back_within_a_step_of_its_segment(law: G711Law) -> None:
    data = G711Writer(law).write(ALL)
    error = np.abs(decoded(data, law) - ALL)

    assert len(data) == ALL.size
    assert set(data) == set(range(256))
    # Sixteen steps a segment: a step is at most a sixteenth of where its segment begins.
    assert np.all(error <= np.maximum(np.abs(ALL.astype(np.int64)) / 16, 16))


@pytest.mark.parametrize("law", G711Law)
def test_a_louder_sample_never_decodes_quieter(law: G711Law) -> None:
    assert np.all(np.diff(decoded(G711Writer(law).write(ALL), law)) >= 0)


@pytest.mark.parametrize(("law", "code"), [(G711Law.ULAW, 0xFF), (G711Law.ALAW, 0xD5)])
def test_silence_has_the_code_that_telephones_expect(law: G711Law, code: int) -> None:
    assert G711Writer(law).write(np.zeros(3, np.int16)) == bytes([code] * 3)


def test_the_encoder_resamples_to_one_byte_a_sample() -> None:
    encoder = open_encoder(
        AudioFormat.PCM, source_rate=24000, sample_rate=8000, streaming=True, law=G711Law.ULAW
    )
    data = encoder.encode(bytes(48000)) + encoder.close()

    assert data == bytes([0xFF] * 8000)


@pytest.mark.parametrize("law", G711Law)
def test_every_code_has_the_value_that_ffmpeg_gives_it(law: G711Law) -> None:
    codes = bytes(range(256))
    ours = np.frombuffer(decode_g711(codes, law), "<i2").astype(np.int64)
    assert np.array_equal(ours, decoded(codes, law))
