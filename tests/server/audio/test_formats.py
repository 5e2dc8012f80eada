import pytest

from server.audio.formats import (
    CONTENT_TYPES,
    FILE_EXTENSIONS,
    AudioFormat,
    UnsupportedSampleRateError,
    default_sample_rate,
    resolve_sample_rate,
    supported_sample_rates,
)


def test_every_format_has_a_content_type_an_extension_and_rates() -> None:
    for fmt in AudioFormat:
        assert CONTENT_TYPES[fmt].startswith("audio/")
        assert FILE_EXTENSIONS[fmt].isalnum()
        assert {8000, 16000, 24000, 48000} <= set(supported_sample_rates(fmt))


@pytest.mark.parametrize("fmt", AudioFormat)
def test_rates_ascend_within_the_limits(fmt: AudioFormat) -> None:
    rates = list(supported_sample_rates(fmt))
    assert rates == sorted(set(rates))
    assert (rates[0], rates[-1]) == (8000, 48000)


@pytest.mark.parametrize(
    ("fmt", "source_rate", "expected"),
    [
        (AudioFormat.PCM, 24000, 24000),
        (AudioFormat.WAV, 22050, 22050),
        (AudioFormat.FLAC, 16000, 16000),
        (AudioFormat.PCM, 96000, 48000),
        (AudioFormat.PCM, 4000, 8000),
        (AudioFormat.MP3, 24000, 24000),
        (AudioFormat.MP3, 22050, 24000),
        (AudioFormat.MP3, 44100, 44100),
        (AudioFormat.OPUS, 24000, 24000),
        (AudioFormat.OPUS, 22050, 24000),
        (AudioFormat.OPUS, 44100, 48000),
        (AudioFormat.AAC, 24000, 48000),
    ],
)
def test_the_default_rate_loses_no_bandwidth(
    fmt: AudioFormat, source_rate: int, expected: int
) -> None:
    assert default_sample_rate(fmt, source_rate) == expected
    assert resolve_sample_rate(fmt, source_rate, None) == expected


@pytest.mark.parametrize("fmt", AudioFormat)
@pytest.mark.parametrize("sample_rate", [0, -24000, 7999, 48001, 10**9])
def test_a_rate_out_of_range_is_refused(fmt: AudioFormat, sample_rate: int) -> None:
    with pytest.raises(UnsupportedSampleRateError, match=f"sample_rate {sample_rate} "):
        resolve_sample_rate(fmt, 24000, sample_rate)


@pytest.mark.parametrize(
    ("fmt", "allowed"),
    [
        (AudioFormat.MP3, "8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000"),
        (AudioFormat.OPUS, "8000, 12000, 16000, 24000, 48000"),
        (AudioFormat.WAV, "8000 to 48000"),
    ],
)
def test_the_error_names_the_format_and_what_it_can_carry(fmt: AudioFormat, allowed: str) -> None:
    with pytest.raises(UnsupportedSampleRateError) as caught:
        resolve_sample_rate(fmt, 24000, 50000)
    assert str(caught.value).endswith(f"for {fmt.value}; allowed: {allowed}")
