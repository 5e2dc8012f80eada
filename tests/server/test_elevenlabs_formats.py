"""Every ``output_format`` is what its name says."""

from __future__ import annotations

import re

import pytest

from server.audio.encoder import open_encoder
from server.audio.formats import AudioFormat
from server.elevenlabs_formats import DEFAULT_FORMAT, FORMATS, SOCKET_FORMATS
from tests.server.audio.decoding import decode, tone

RATE = 24000
PCM = tone(2 * RATE)


def coded(name: str) -> bytes:
    output = FORMATS[name]
    encoder = open_encoder(
        output.fmt,
        source_rate=RATE,
        sample_rate=output.sample_rate,
        streaming=True,
        bit_rate=output.bit_rate,
        law=output.law,
    )
    return encoder.encode(PCM) + encoder.close()


@pytest.mark.parametrize("name", [name for name in FORMATS if name.startswith(("mp3", "opus"))])
def test_a_coded_format_has_the_rates_of_its_name(name: str) -> None:
    codec, rate, kbits = re.fullmatch(r"([a-z0-9]+)_(\d+)_(\d+)", name).groups()  # type: ignore[union-attr]
    data = coded(name)
    heard = decode(data, AudioFormat(codec))

    assert heard.sample_rate == int(rate)
    assert heard.duration_s == pytest.approx(2.0, abs=0.1)
    size = len(data) * 8 / heard.duration_s / 1000
    if codec == "mp3":
        assert size == pytest.approx(int(kbits), rel=0.05)
    else:  # opus codes a tone in fewer bits than it may
        assert size <= 1.3 * int(kbits) + 10


@pytest.mark.parametrize("name", [name for name in FORMATS if name.startswith("pcm")])
def test_pcm_has_two_bytes_a_sample(name: str) -> None:
    assert len(coded(name)) == 2 * 2 * int(name.removeprefix("pcm_"))


@pytest.mark.parametrize("name", ["ulaw_8000", "alaw_8000"])
def test_telephone_formats_have_one(name: str) -> None:
    assert len(coded(name)) == 2 * 8000


def test_a_socket_has_all_but_wav() -> None:
    assert set(FORMATS) - set(SOCKET_FORMATS) == {n for n in FORMATS if n.startswith("wav")}
    assert DEFAULT_FORMAT in SOCKET_FORMATS
    assert FORMATS["ulaw_8000"].content_type == "audio/basic"
