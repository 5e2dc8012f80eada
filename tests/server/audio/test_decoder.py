"""Reading what clients send: every format, any piece size, and nothing that is no audio."""

from __future__ import annotations

import contextlib
import io
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from av.audio.stream import AudioStream

from engine.errors import InvalidRequestError
from server.audio.decoder import SAMPLE_RATE, AudioReader, Samples
from server.audio.encoder import open_encoder
from server.audio.formats import AudioFormat

RATE = 24_000
DURATION_S = 2.0
CODED = [AudioFormat.MP3, AudioFormat.OPUS, AudioFormat.AAC, AudioFormat.FLAC, AudioFormat.WAV]


def tone(num_samples: int = round(DURATION_S * RATE)) -> bytes:
    """440 Hz at half of full scale, int16."""
    wave_form = 16_000 * np.sin(2 * np.pi * 440 * np.arange(num_samples) / RATE)
    return wave_form.astype("<i2").tobytes()


def coded(fmt: AudioFormat) -> bytes:
    encoder = open_encoder(
        fmt, source_rate=RATE, sample_rate=RATE, num_samples=None, streaming=True
    )
    return encoder.encode(tone()) + encoder.close()


def in_container(name: str, codec: str, rate: int = 48_000, layout: str = "stereo") -> bytes:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=name) as container:
        stream = container.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, AudioStream)
        frame = av.AudioFrame.from_ndarray(
            np.frombuffer(tone(), "<i2").reshape(1, -1), "s16", "mono"
        )
        frame.rate = RATE
        for part in av.AudioResampler(stream.format, layout, rate).resample(frame):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def read(data: bytes, size: int = 4000) -> Samples:
    reader = AudioReader(io.BytesIO(data))
    pieces = []
    while len(piece := reader.read(size)) == size:
        pieces.append(piece)
    reader.close()
    return np.concatenate([*pieces, piece])


def check_tone(audio: Samples) -> None:
    assert audio.dtype == np.float32
    assert abs(len(audio) / SAMPLE_RATE - DURATION_S) < 0.15
    middle = audio[SAMPLE_RATE // 2 : SAMPLE_RATE * 3 // 2]
    spectrum = np.abs(np.fft.rfft(middle))
    assert abs(int(np.argmax(spectrum)) - 440) <= 1
    assert 0.3 < float(np.sqrt(np.mean(middle**2))) < 0.4


@pytest.mark.parametrize("fmt", CODED)
def test_what_this_server_speaks_it_reads(fmt: AudioFormat) -> None:
    check_tone(read(coded(fmt)))


@pytest.mark.parametrize(
    ("container", "codec"),
    [("mp4", "aac"), ("webm", "libopus"), ("matroska", "pcm_s16le"), ("aiff", "pcm_s16be")],
)
def test_other_containers_and_stereo_are_read(container: str, codec: str) -> None:
    check_tone(read(in_container(container, codec)))


@pytest.mark.parametrize("size", [1000, 4001, 1_000_000])
def test_pieces_of_any_size_are_the_same_audio(size: int) -> None:
    whole = read(coded(AudioFormat.FLAC), 32_000)

    np.testing.assert_array_equal(read(coded(AudioFormat.FLAC), size), whole)


def test_little_is_decoded_ahead_of_what_is_read() -> None:
    reader = AudioReader(io.BytesIO(coded(AudioFormat.FLAC)))
    reader.read(160)

    assert reader._num_held < SAMPLE_RATE


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"not audio at all, but a text" * 50,
        b"RIFF\x24\x00\x00\x00WAVE",
        coded(AudioFormat.WAV)[:30],
        coded(AudioFormat.WAV)[:44],
        coded(AudioFormat.FLAC)[:40],
        b"\x89PNG\r\n\x1a\n" + bytes(100),
    ],
)
def test_what_is_no_audio_is_refused_by_its_name(data: bytes) -> None:
    with pytest.raises(InvalidRequestError, match=r"file must be audio in flac") as caught:
        read(data)

    assert caught.value.param == "file"


def test_random_bytes_never_do_more_than_that() -> None:
    generator = np.random.default_rng(1)
    heads = [coded(fmt)[:200] for fmt in CODED]
    for number in range(60):
        noise = generator.bytes(3000)
        with pytest.raises(InvalidRequestError):
            read(noise)
        with contextlib.suppress(InvalidRequestError):
            assert np.isfinite(read(heads[number % len(heads)] + noise)).all()


@pytest.mark.parametrize("fmt", CODED)
def test_a_file_that_was_cut_short_gives_what_is_there(fmt: AudioFormat) -> None:
    data = coded(fmt)

    audio = read(data[: len(data) // 2])

    assert 0.5 < len(audio) / SAMPLE_RATE < 1.5


def test_a_wav_with_a_size_of_unknown_length_is_read() -> None:
    data = bytearray(coded(AudioFormat.WAV))
    data[4:8] = data[40:44] = b"\xff\xff\xff\xff"

    check_tone(read(bytes(data)))


def test_numbers_that_are_none_and_beyond_full_scale_are_made_harmless() -> None:
    buffer = io.BytesIO()
    samples = np.full(RATE, 7.0, np.float32)
    samples[::2] = np.nan
    with av.open(buffer, "w", format="wav") as container:
        stream = container.add_stream("pcm_f32le", rate=RATE, layout="mono")
        frame = av.AudioFrame.from_ndarray(samples.reshape(1, -1), "flt", "mono")
        frame.rate = RATE
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

    audio = read(buffer.getvalue())

    assert np.isfinite(audio).all()
    assert np.abs(audio).max() <= 1.0


def test_a_video_without_sound_is_refused() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        frame = av.VideoFrame(32, 32, "yuv420p")
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))

    with pytest.raises(InvalidRequestError, match="no audio track"):
        read(buffer.getvalue())


def test_playlists_do_not_open_other_files(tmp_path: Path) -> None:
    secret = tmp_path / "secret.wav"
    with wave.open(str(secret), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(tone())
    playlists = (
        f"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{secret}\n#EXT-X-ENDLIST\n",
        f"ffconcat version 1.0\nfile {secret}\n",
        f"{secret}\n",
    )

    for playlist in playlists:
        with pytest.raises(InvalidRequestError, match="not recognised"):
            read(playlist.encode())
