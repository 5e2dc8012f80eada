"""G.711 against PyAV's codecs, which are FFmpeg's."""

from __future__ import annotations

import av
import numpy as np
import pytest

from server.sessions.realtime.g711 import decode_g711, encode_g711

CODECS = {"audio/pcmu": "pcm_mulaw", "audio/pcma": "pcm_alaw"}


def decode_with_ffmpeg(data: bytes, kind: str) -> bytes:
    codec = av.CodecContext.create(CODECS[kind], "r")
    assert isinstance(codec, av.AudioCodecContext)
    codec.sample_rate, codec.layout = 8000, "mono"
    frames = codec.decode(av.Packet(data))
    return b"".join(frame.to_ndarray().astype("<i2").tobytes() for frame in frames)


@pytest.mark.parametrize("kind", CODECS)
def test_every_code_has_its_value(kind: str) -> None:
    codes = bytes(range(256))
    assert decode_g711(codes, kind) == decode_with_ffmpeg(codes, kind)


@pytest.mark.parametrize("kind", CODECS)
def test_every_sample_becomes_the_nearest_code(kind: str) -> None:
    samples = np.arange(-32768, 32768).astype("<i2")
    values = np.frombuffer(decode_g711(bytes(range(256)), kind), "<i2").astype(int)
    coded = np.frombuffer(decode_g711(encode_g711(samples.tobytes(), kind), kind), "<i2")
    nearest = np.abs(samples.astype(int)[:, None] - values[None, :]).min(axis=1)
    assert np.array_equal(np.abs(coded.astype(int) - samples.astype(int)), nearest)


def test_pcm_passes_through() -> None:
    assert decode_g711(b"ab", "audio/pcm") == b"ab"
    assert encode_g711(b"ab", "audio/pcm") == b"ab"
