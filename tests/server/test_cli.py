"""The command line itself: quick, helpful, and one line when it fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from server.audio.formats import AudioFormat
from server.cli import _FORMATS, DEFAULT_PIPELINE, main
from server.settings import ServerSettings

HEAVY = ("fastapi", "numpy", "av", "engine", "onnxruntime", "msgspec", "uvicorn")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["serve", "--help"], ["say", "--help"], ["worker", "--help"]]
)
def test_help_is_given_without_loading_anything_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from server.cli import main\n"
        f"try: main({arguments!r})\n"
        f"finally: print([m for m in {HEAVY!r} if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "usage: voxloom" in done.stdout
    assert done.stdout.rstrip().endswith("[]")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "COMMAND"),
        (["sing"], "serve"),
        (["serve", "--port", "web"], "--port"),
        (["serve", "--log-level", "loud"], "info"),
        (["say", "Hi", "--format", "ogg"], "opus"),
        (["say", "Hi", "--seed", "x"], "--seed"),
    ],
)
def test_a_wrong_command_line_is_a_2_that_names_what_is_allowed(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)

    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["voices", "--pipeline", "nope"], "unknown pipeline 'nope'; known: "),
        (["voices", "--pipeline", "/nowhere.yaml"], "cannot read /nowhere.yaml"),
        (["serve", "--config", "/nowhere.yaml"], "cannot read /nowhere.yaml"),
        (["serve", "--port", "70000"], "port must be from 0 to 65535"),
        (["serve", "--pipeline", "nope"], "unknown pipeline 'nope'"),
        (["serve", "--api-key-file", "/nowhere"], "api_key_file"),
        (["say", "Hi"], "-o FILE"),
        (["say", "Hi", "-o", "x.txt"], "--format, one of mp3, opus"),
        (["say", "Hi", "-o", "x.wav", "--speed", "9"], "from 0.25 to 4"),
        (["say", "Hi", "-o", "x.wav", "--speed", "nan"], "from 0.25 to 4"),
        (["say", "Hi", "-f", "x", "-o", "x.wav"], "not both"),
        (["say", "-f", "/nowhere.txt", "-o", "x.wav"], "/nowhere.txt"),
        (["say", "Hi", "-o", "/nowhere/x.wav", "--pipeline", "sine"], "/nowhere"),
        (["say", " ", "-o", "x.wav", "--pipeline", "sine"], "empty"),
        (["say", "Hi", "-o", "x.wav", "--voice", "nobody", "--pipeline", "sine"], "low, high"),
    ],
)
def test_what_cannot_be_done_is_a_1_with_one_line(
    arguments: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(arguments) == 1

    error = capsys.readouterr().err
    assert error.startswith("voxloom: error: ")
    assert says in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_twice_agrees() -> None:
    assert set(_FORMATS) == set(AudioFormat)
    assert ServerSettings().pipeline == DEFAULT_PIPELINE
