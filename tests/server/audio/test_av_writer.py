import io

import numpy as np
import pytest
import soundfile

from server.audio.av_writer import decoder_delay_ms
from server.audio.encoder import open_encoder
from server.audio.formats import AudioFormat, supported_sample_rates
from tests.server.audio.decoding import COMPRESSED, decode, encode, tone

# Decoded minus true length in samples of the output rate, at most.
MP3_EXCESS = {True: 1105 + 575, False: 1105 + 1151}  # below 32 kHz, and from there on
MP3_SKIPPED = 576
AAC_EXCESS = 1024 + 1023


@pytest.mark.parametrize("sample_rate", supported_sample_rates(AudioFormat.MP3))
@pytest.mark.parametrize("num_samples", [2400, 24000, 24471, 24499])
def test_mp3_adds_no_more_than_the_encoders_delay_and_one_frame(
    sample_rate: int, num_samples: int
) -> None:
    pcm = tone(num_samples, sample_rate)
    body = encode(AudioFormat.MP3, pcm, source_rate=sample_rate, sample_rate=sample_rate)
    decoded = decode(body, AudioFormat.MP3)
    skipped = MP3_SKIPPED if sample_rate < 24000 else 0
    excess = decoded.samples.size - num_samples
    assert decoded.sample_rate == sample_rate
    assert 1105 - skipped <= excess <= MP3_EXCESS[sample_rate < 32000] - skipped


@pytest.mark.parametrize("sample_rate", supported_sample_rates(AudioFormat.AAC))
@pytest.mark.parametrize("num_samples", [2400, 24000, 24576, 24577])
def test_aac_adds_no_more_than_priming_and_one_frame(sample_rate: int, num_samples: int) -> None:
    pcm = tone(num_samples, sample_rate)
    body = encode(AudioFormat.AAC, pcm, source_rate=sample_rate, sample_rate=sample_rate)
    decoded = decode(body, AudioFormat.AAC)
    assert decoded.sample_rate == sample_rate
    assert 1024 <= decoded.samples.size - num_samples <= AAC_EXCESS


@pytest.mark.parametrize("fmt", [AudioFormat.MP3, AudioFormat.AAC])
@pytest.mark.parametrize("num_samples", [2880, 24000, 24001, 24192, 24287, 24767, 50000])
def test_at_the_default_rate_the_duration_is_within_70_ms(
    fmt: AudioFormat, num_samples: int
) -> None:
    decoded = decode(encode(fmt, tone(num_samples)), fmt)
    assert 0 <= decoded.duration_s - num_samples / 24000 <= 0.07


@pytest.mark.parametrize("sample_rate", supported_sample_rates(AudioFormat.OPUS))
@pytest.mark.parametrize("num_samples", [1, 2, 159, 480, 481, 24000, 24013])
def test_opus_decodes_to_the_exact_duration(sample_rate: int, num_samples: int) -> None:
    pcm = tone(num_samples, sample_rate)
    body = encode(AudioFormat.OPUS, pcm, source_rate=sample_rate, sample_rate=sample_rate)
    decoded = decode(body, AudioFormat.OPUS)
    assert decoded.sample_rate == 48000
    assert decoded.samples.size * sample_rate == num_samples * 48000


@pytest.mark.parametrize("sample_rate", [8000, 12345, 22050, 24000, 44100, 48000])
@pytest.mark.parametrize("streaming", [True, False])
def test_flac_is_lossless(sample_rate: int, streaming: bool) -> None:
    pcm = tone(9999, sample_rate)
    body = encode(AudioFormat.FLAC, pcm, source_rate=sample_rate, streaming=streaming)
    decoded = decode(body, AudioFormat.FLAC)
    assert decoded.sample_rate == sample_rate
    assert (decoded.samples * 32768).astype("<i2").tobytes() == pcm


@pytest.mark.parametrize("num_samples", [1, 480, 24013])
@pytest.mark.parametrize("streaming", [True, False])
def test_flac_of_known_length_says_it(num_samples: int, streaming: bool) -> None:
    pcm = tone(num_samples)
    body = encode(AudioFormat.FLAC, pcm, num_samples=num_samples, streaming=streaming)
    samples, sample_rate = soundfile.read(io.BytesIO(body), dtype="int16")
    assert sample_rate == 24000
    assert samples.tobytes() == pcm


@pytest.mark.parametrize(
    ("fmt", "delay"), [(AudioFormat.MP3, 1105), (AudioFormat.OPUS, 0), (AudioFormat.AAC, 1024)]
)
def test_the_audio_is_all_there_and_in_its_place(fmt: AudioFormat, delay: int) -> None:
    rate = 48000 if fmt is AudioFormat.OPUS else 24000
    pcm = tone(rate, rate)
    body = encode(fmt, pcm, source_rate=rate, sample_rate=rate)
    decoded = decode(body, fmt).samples[delay : delay + rate]
    true = np.frombuffer(pcm, "<i2") / 32768
    for part in (slice(600, 4000), slice(10000, 14000), slice(-4000, -100)):
        assert np.corrcoef(decoded[part], true[part])[0, 1] > 0.99


def test_mp3_below_24_khz_keeps_its_beginning_without_the_first_frame() -> None:
    pcm = tone(16000, 16000)
    body = encode(AudioFormat.MP3, pcm, source_rate=16000, sample_rate=16000)
    decoded = decode(body, AudioFormat.MP3).samples[1105 - MP3_SKIPPED :]
    true = np.frombuffer(pcm, "<i2") / 32768
    assert np.corrcoef(decoded[:400], true[:400])[0, 1] > 0.99


def test_mp3_has_a_constant_bit_rate_and_no_tag_or_info_frame() -> None:
    body = encode(AudioFormat.MP3, tone(48000))
    frame_size = 144 * 128_000 // 24000 // 2
    frames = [body[start : start + frame_size] for start in range(0, len(body), frame_size)]
    assert {frame[:3] for frame in frames} == {body[:3]}
    assert not any(tag in body for tag in (b"ID3", b"Xing", b"Info", b"TAG"))
    assert {len(frame) for frame in frames} == {frame_size}


def test_mp3_bodies_may_be_concatenated() -> None:
    body = encode(AudioFormat.MP3, tone(24000))
    single = decode(body, AudioFormat.MP3)
    double = decode(body + body, AudioFormat.MP3)
    assert double.complaints == []
    assert double.samples.size == 2 * single.samples.size
    second = double.samples[single.samples.size + 1200 :]
    assert np.corrcoef(second, single.samples[1200:])[0, 1] > 0.999


@pytest.mark.parametrize("fmt", COMPRESSED)
def test_a_file_nobody_waits_for_is_no_larger(fmt: AudioFormat) -> None:
    pcm = tone(72000)
    streamed, whole = encode(fmt, pcm), encode(fmt, pcm, streaming=False)
    assert len(whole) <= len(streamed)
    assert decode(whole, fmt).samples.size == decode(streamed, fmt).samples.size


@pytest.mark.parametrize("fmt", COMPRESSED)
def test_the_first_bytes_hold_audio(fmt: AudioFormat) -> None:
    encoder = open_encoder(fmt, source_rate=24000, streaming=True)
    pcm = tone(24000)
    chunks = iter(pcm[start : start + 480] for start in range(0, len(pcm), 480))
    first = next(data for data in map(encoder.encode, chunks) if data)
    encoder.discard()
    # FFmpeg opens no mp3 of one frame, so it comes twice here.
    more = first if fmt is AudioFormat.MP3 else b""
    assert decode(first + more, fmt).samples.size >= 480


@pytest.mark.parametrize(
    ("fmt", "rate"), [(fmt, rate) for fmt in COMPRESSED for rate in (8000, 16000, 24000, 48000)]
)
def test_the_delay_of_decoders_is_known(fmt: AudioFormat, rate: int) -> None:
    """A sound is found as much later as it is told."""
    pcm = bytes(rate) + tone(rate // 4, rate)
    heard = decode(encode(fmt, pcm, source_rate=rate, sample_rate=rate), fmt)

    onset_s = int(np.argmax(np.abs(heard.samples) > 0.1)) / heard.sample_rate
    assert (onset_s - 0.5) * 1000 == pytest.approx(decoder_delay_ms(fmt, rate), abs=2.5)


@pytest.mark.parametrize("fmt", [AudioFormat.PCM, AudioFormat.WAV])
def test_plain_samples_have_no_delay(fmt: AudioFormat) -> None:
    assert decoder_delay_ms(fmt, 24000) == 0
