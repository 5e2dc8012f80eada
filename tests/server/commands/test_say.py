"""Speaking without a server, with the tone pipeline's real processes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import wave
from pathlib import Path

import pytest

from engine.errors import ConfigError
from server.audio.formats import AudioFormat
from server.cli import build_parser, main
from server.commands.say import Progress, choose_format, read_text

SAY = ["say", "--pipeline", "sine"]


@pytest.mark.parametrize(
    ("named", "output", "fmt"),
    [
        (None, "a.mp3", "mp3"),
        (None, "a.OGG", "opus"),
        (None, "dir.x/a.flac", "flac"),
        (None, "a", "wav"),
        (None, "-", "wav"),
        (None, None, "wav"),
        ("aac", "a.mp3", "aac"),
    ],
)
def test_the_format_is_the_named_one_or_the_extensions(
    named: str | None, output: str | None, fmt: str
) -> None:
    assert choose_format(named, output) is AudioFormat(fmt)


def test_an_unknown_extension_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'a.txt'"):
        choose_format(None, "a.txt")


def test_the_text_comes_from_where_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").write_text("from the file ☃", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", io.StringIO("from the pipe"))
    parse = build_parser().parse_args

    assert read_text(parse(["say", "argument"])) == "argument"
    assert read_text(parse(["say", "-f", str(tmp_path / "t")])) == "from the file ☃"
    assert read_text(parse(["say", "-f", "-"])) == "from the pipe"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shows"), [(Terminal(), True), (io.StringIO(), False)])
def test_progress_is_shown_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, shows: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    progress = Progress(1000)

    progress.add(1500)
    progress.finish()

    assert ("1.5 s spoken" in stream.getvalue()) is shows
    assert progress.num_samples == 1500


@pytest.mark.process
def test_a_text_becomes_a_file_and_the_same_seed_the_same_file(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        assert main([*SAY, "One two.", "-o", str(tmp_path / name), "--seed", "1"]) == 0

    with wave.open(str(tmp_path / "a.wav")) as file:
        assert file.getframerate() == 24000
        assert file.getnframes() > 2400
    assert (tmp_path / "a.wav").read_bytes() == (tmp_path / "b.wav").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.wav", "b.wav"]


@pytest.mark.process
def test_piped_in_and_out_it_writes_audio_and_nothing_else() -> None:
    command = [sys.executable, "-m", "server.cli", *SAY, "-o", "-", "--format", "pcm"]

    done = subprocess.run(command, input=b"One two.", capture_output=True, check=True)

    assert len(done.stdout) > 4800
    assert len(done.stdout) % 2 == 0
    assert done.stderr == b""
