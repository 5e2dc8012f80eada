import gc
import io
import itertools
import resource
import threading
import wave
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from server.audio.encoder import SampleCountError, open_encoder
from server.audio.formats import CONTENT_TYPES, AudioFormat, UnsupportedSampleRateError
from server.audio.resampler import num_resampled
from tests.server.audio.decoding import COMPRESSED, CONTAINED, decode, encode, tone

MAGIC = {
    "audio/mpeg": (b"\xff\xf3", b"\xff\xfb"),
    "audio/ogg": (b"OggS",),
    "audio/aac": (b"\xff\xf1",),
    "audio/flac": (b"fLaC",),
    "audio/wav": (b"RIFF",),
}
# Input that the first bytes of audio may take, in ms, at the default rate.
FIRST_BYTES_MS = {
    AudioFormat.MP3: 60,
    AudioFormat.OPUS: 40,
    AudioFormat.AAC: 100,
    AudioFormat.FLAC: 20,
    AudioFormat.WAV: 0,
    AudioFormat.PCM: 0,
}
EXACT = [AudioFormat.FLAC, AudioFormat.WAV, AudioFormat.PCM]


def _resident_bytes() -> int:
    num_pages = int(Path("/proc/self/statm").read_text().split()[1])
    return num_pages * resource.getpagesize()


def _cut(pcm: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(2 * cut for cut in cuts), len(pcm)]
    return [pcm[start:end] for start, end in itertools.pairwise(bounds)]


@settings(max_examples=40, deadline=None)
@given(
    fmt=st.sampled_from(list(AudioFormat)),
    sample_rate=st.sampled_from([None, 8000, 16000, 24000, 48000]),
    num_samples=st.integers(0, 5000),
    cuts=st.lists(st.integers(0, 5000), max_size=6),
)
def test_chunking_never_changes_the_bytes(
    fmt: AudioFormat, sample_rate: int | None, num_samples: int, cuts: list[int]
) -> None:
    # Ogg numbers each stream at random; everything else is compared as it is.
    def comparable(body: bytes) -> object:
        return decode(body, fmt).samples.tobytes() if fmt is AudioFormat.OPUS else body

    pcm = tone(num_samples)
    encoder = open_encoder(fmt, source_rate=24000, sample_rate=sample_rate, streaming=True)
    parts = [encoder.encode(chunk) for chunk in _cut(pcm, cuts)]
    body = b"".join([*parts, encoder.close()])
    whole = encode(fmt, pcm, sample_rate=sample_rate, chunk_samples=5000)
    assert comparable(body) == comparable(whole)


@pytest.mark.parametrize("fmt", CONTAINED)
@pytest.mark.parametrize("sample_rate", [None, 8000, 16000, 24000, 48000])
@pytest.mark.parametrize("num_samples", [0, 1, 2, 47, 500, 1025, 24007])
def test_every_body_decodes_without_a_complaint(
    fmt: AudioFormat, sample_rate: int | None, num_samples: int
) -> None:
    # FFmpeg warns of a WAV of unknown length, whatever the file.
    num_announced = num_samples if fmt is AudioFormat.WAV else None
    pcm = tone(num_samples)
    body = encode(fmt, pcm, sample_rate=sample_rate, num_samples=num_announced)
    decoded = decode(body, fmt)
    assert decoded.num_channels == 1
    # FFmpeg warns of any WAV without samples, too.
    assert decoded.complaints == [] or (fmt is AudioFormat.WAV and not decoded.samples.size)


@pytest.mark.parametrize("fmt", CONTAINED)
def test_the_bytes_are_recognised_as_what_the_content_type_says(fmt: AudioFormat) -> None:
    encoder = open_encoder(fmt, source_rate=24000, streaming=True)
    body = encoder.encode(tone(24000)) + encoder.close()
    assert encoder.content_type == CONTENT_TYPES[fmt]
    assert body.startswith(MAGIC[encoder.content_type])
    decoded = decode(body)
    assert decoded.container == {"opus": "ogg"}.get(fmt.value, fmt.value)
    assert decoded.sample_rate == (48000 if fmt is AudioFormat.OPUS else encoder.sample_rate)


@pytest.mark.parametrize("fmt", AudioFormat)
def test_the_first_bytes_come_early(fmt: AudioFormat) -> None:
    encoder = open_encoder(fmt, source_rate=24000, streaming=True)
    pcm = tone(24000)
    num_samples = next(
        position + 1 for position in range(24000) if encoder.encode(pcm[2 * position :][:2])
    )
    encoder.discard()
    assert num_samples <= max(1, FIRST_BYTES_MS[fmt] * 24)


@pytest.mark.parametrize("fmt", COMPRESSED)
def test_bytes_keep_coming_at_least_every_100_ms(fmt: AudioFormat) -> None:
    encoder = open_encoder(fmt, source_rate=24000, streaming=True)
    sizes = [len(encoder.encode(tone(2400))) for _ in range(20)]
    encoder.discard()
    assert all(sizes[1:])


@pytest.mark.parametrize("fmt", EXACT)
@pytest.mark.parametrize("sample_rate", [8000, 11025, 16000, 24000, 44100, 48000])
@pytest.mark.parametrize("num_samples", [1, 100, 24007])
def test_lossless_formats_have_the_exact_length_and_samples(
    fmt: AudioFormat, sample_rate: int, num_samples: int
) -> None:
    pcm = tone(num_samples)
    expected = encode(AudioFormat.PCM, pcm, sample_rate=sample_rate)
    body = encode(fmt, pcm, sample_rate=sample_rate, num_samples=num_samples)
    assert len(expected) == 2 * num_resampled(num_samples, 24000, sample_rate)
    if fmt is not AudioFormat.PCM and expected:
        samples, rate = soundfile.read(io.BytesIO(body), dtype="int16")
        assert (rate, samples.tobytes()) == (sample_rate, expected)


@pytest.mark.parametrize("sample_rate", [8000, 24000, 48000])
def test_pythons_wave_module_reads_a_wav_of_known_length(sample_rate: int) -> None:
    body = encode(AudioFormat.WAV, tone(24007), sample_rate=sample_rate, num_samples=24007)
    with wave.open(io.BytesIO(body)) as reader:
        assert reader.getnframes() == num_resampled(24007, 24000, sample_rate)
        assert len(reader.readframes(10**6)) == 2 * reader.getnframes()


def test_a_streamed_wav_says_that_its_length_is_unknown() -> None:
    body = encode(AudioFormat.WAV, tone(1000))
    assert body[4:8] == body[40:44] == b"\xff" * 4
    assert body[44:] == tone(1000)
    assert decode(body, AudioFormat.WAV).samples.size == 1000


@pytest.mark.parametrize("sample_rate", [16000, 24000, 44100])
def test_pcm_always_leaves_in_whole_samples(sample_rate: int) -> None:
    encoder = open_encoder(
        AudioFormat.PCM, source_rate=24000, sample_rate=sample_rate, streaming=True
    )
    outputs = [encoder.encode(tone(size)) for size in (0, 1, 1003, 0, 77, 2401)]
    assert {len(data) % 2 for data in [*outputs, encoder.close()]} == {0}


def test_a_memoryview_is_taken_and_not_kept() -> None:
    pcm = bytearray(tone(700))
    encoder = open_encoder(AudioFormat.FLAC, source_rate=24000, streaming=True)
    first = encoder.encode(memoryview(pcm))
    pcm[:] = bytes(len(pcm))
    pcm.clear()  # raises BufferError while somebody holds a view
    decoded = decode(first + encoder.close(), AudioFormat.FLAC)
    assert (decoded.samples * 32768).astype("<i2").tobytes() == tone(700)


class TestEnd:
    @pytest.mark.parametrize("fmt", AudioFormat)
    def test_close_gives_its_bytes_once(self, fmt: AudioFormat) -> None:
        encoder = open_encoder(fmt, source_rate=24000, streaming=True)
        encoder.encode(tone(3000))
        encoder.close()
        assert encoder.close() == b""
        encoder.discard()

    @pytest.mark.parametrize("fmt", AudioFormat)
    def test_nothing_comes_after_discard(self, fmt: AudioFormat) -> None:
        encoder = open_encoder(fmt, source_rate=24000, streaming=True)
        encoder.encode(tone(3000))
        encoder.discard()
        encoder.discard()
        assert encoder.close() == b""
        with pytest.raises(ValueError, match="closed"):
            encoder.encode(tone(1))

    def test_discarded_encoders_leave_no_memory_behind(self) -> None:
        def open_and_discard(num_encoders: int) -> None:
            for _, fmt in zip(range(num_encoders), itertools.cycle(AudioFormat), strict=False):
                encoder = open_encoder(fmt, source_rate=24000, sample_rate=48000, streaming=True)
                encoder.encode(tone(4000))
                encoder.discard()
            gc.collect()

        open_and_discard(120)
        before_bytes = _resident_bytes()
        open_and_discard(1000)
        # One flac encoder alone holds 7 MB, so a few that stay behind show.
        assert _resident_bytes() - before_bytes < 16 * 2**20


@pytest.mark.parametrize("fmt", AudioFormat)
def test_an_encoder_may_move_between_threads(fmt: AudioFormat) -> None:
    encoder = open_encoder(fmt, source_rate=24000, streaming=True)
    parts: list[bytes] = []
    for start in range(0, 48000, 9600):
        chunk = tone(24000)[start : start + 9600]
        thread = threading.Thread(target=lambda data=chunk: parts.append(encoder.encode(data)))
        thread.start()
        thread.join()
    body = b"".join([*parts, encoder.close()])
    if fmt is AudioFormat.PCM:
        assert body == tone(24000)
    else:
        alone = decode(encode(fmt, tone(24000)), fmt)
        assert np.array_equal(decode(body, fmt).samples, alone.samples)


class TestBadInput:
    def test_half_a_sample_is_refused(self) -> None:
        encoder = open_encoder(AudioFormat.PCM, source_rate=24000, streaming=True)
        with pytest.raises(ValueError, match="whole 16-bit samples, not 3 bytes"):
            encoder.encode(b"\0\0\0")

    @pytest.mark.parametrize("fmt", AudioFormat)
    def test_a_rate_the_format_cannot_carry_is_refused(self, fmt: AudioFormat) -> None:
        with pytest.raises(UnsupportedSampleRateError, match="allowed: 8000"):
            open_encoder(fmt, source_rate=24000, sample_rate=50000, streaming=True)

    def test_a_source_rate_or_length_out_of_range_is_refused(self) -> None:
        with pytest.raises(ValueError, match="source_rate must be at least 1"):
            open_encoder(AudioFormat.WAV, source_rate=0, streaming=True)
        with pytest.raises(ValueError, match="num_samples must be at least 0"):
            open_encoder(AudioFormat.WAV, source_rate=24000, num_samples=-1, streaming=True)

    @pytest.mark.parametrize("fmt", AudioFormat)
    def test_fewer_samples_than_announced_make_no_whole_file(self, fmt: AudioFormat) -> None:
        encoder = open_encoder(fmt, source_rate=24000, num_samples=100, streaming=False)
        encoder.encode(tone(99))
        with pytest.raises(SampleCountError, match="num_samples is 100, but 99 samples came"):
            encoder.close()
        assert encoder.close() == b""

    def test_more_samples_than_announced_are_refused(self) -> None:
        encoder = open_encoder(AudioFormat.WAV, source_rate=24000, num_samples=100, streaming=False)
        with pytest.raises(SampleCountError, match="101 samples came"):
            encoder.encode(tone(101))
        encoder.discard()
