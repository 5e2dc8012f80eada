"""Where spoken audio goes."""

from __future__ import annotations

import os
import threading
import wave
from pathlib import Path

import pytest

from engine.errors import ConfigError
from server.audio.formats import AudioFormat
from server.commands.sinks import open_sink, player_command
from tests.server.fake_engine import RATE, sine

PCM = sine(RATE // 4)


def write(output: Path, fmt: AudioFormat, *, commit: bool = True) -> None:
    with open_sink(str(output), fmt, RATE, play=False) as sink:
        sink.write(memoryview(PCM)[:2000])
        sink.write(memoryview(PCM)[2000:])
        if commit:
            sink.commit()


def test_a_wav_file_has_true_sizes(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", AudioFormat.WAV)

    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.readframes(file.getnframes()) == PCM
    assert os.listdir(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("fmt", list(AudioFormat))
def test_every_format_can_be_written(tmp_path: Path, fmt: AudioFormat) -> None:
    write(tmp_path / "a", fmt)

    assert (tmp_path / "a").stat().st_size > 500


def test_a_speech_that_fails_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"old")

    write(tmp_path / "a.wav", AudioFormat.WAV, commit=False)

    assert (tmp_path / "a.wav").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_a_pipe_is_written_as_it_goes(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()

    write(pipe, AudioFormat.PCM)

    reader.join(120)
    assert received == [PCM]
    assert pipe.is_fifo()


def install_player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    player = tmp_path / "aplay"
    player.write_text(f"#!/bin/sh\n{script}\n")
    player.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")


def test_a_player_gets_the_samples_and_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_player(tmp_path, monkeypatch, f"cat > {tmp_path}/heard")

    with open_sink(None, AudioFormat.WAV, RATE, play=True) as sink:
        sink.write(memoryview(PCM))
        sink.commit()

    assert (tmp_path / "heard").read_bytes() == PCM


def test_a_player_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_player(tmp_path, monkeypatch, "cat > /dev/null; exit 3")

    with open_sink(None, AudioFormat.WAV, RATE, play=True) as sink:
        sink.write(memoryview(PCM))
        with pytest.raises(OSError, match="status 3"):
            sink.commit()


def test_without_a_player_the_error_names_those_that_would_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match="pacat, aplay, play, ffplay"):
        player_command(RATE)
