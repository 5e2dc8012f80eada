"""The examples, as a user runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.speech import check_speech, hear

EXAMPLES = Path(__file__).parents[2] / "examples"
TEXT = "Say hello to the brown fox."
# About what the text takes to say, in seconds.
PACE = (1.0, 3.0)
STAND_IN_MODULE = """
class RawOutputStream:
    def __init__(self, samplerate, channels, dtype):
        assert (samplerate, channels, dtype) == (24000, 1, "int16")
    def __enter__(self):
        self._file = open("played", "wb")
        return self
    def __exit__(self, *error):
        self._file.close()
    def write(self, data):
        self._file.write(data)
"""


def run(name: str, *arguments: str, cwd: Path, environ: dict[str, str]) -> str:
    """What the example prints; fails if it fails or complains."""
    program = EXAMPLES / name
    interpreter = sys.executable if program.suffix == ".py" else "bash"
    done = subprocess.run(
        [interpreter, str(program), *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def recorder(tmp_path: Path, environ: dict[str, str]) -> Path:
    """What is played goes into this file: a loudspeaker is nothing that a test can look at."""
    folder = tmp_path / "bin"
    folder.mkdir()
    played = tmp_path / "played"
    (folder / "aplay").write_text(f"#!/bin/sh\nexec cat >'{played}'\n")
    (folder / "aplay").chmod(0o755)
    environ["PATH"] = f"{folder}:{environ['PATH']}"
    return played


def num_code_lines(path: Path) -> int:
    """Lines that are neither empty nor in a comment or a docstring at the top."""
    body = path.read_text(encoding="utf-8").rpartition('"""\n')[2]
    return len([line for line in body.splitlines() if line.strip() and line[0] != "#"])


def test_every_example_is_tested_and_short() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    programs = [path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")]

    assert len(programs) >= 5
    for path in programs:
        assert f'run("{path.name}"' in tested
        assert num_code_lines(path) <= 45


def test_openai_speak_writes_a_file(tmp_path: Path, environ: dict[str, str]) -> None:
    printed = run("openai_speak.py", TEXT, "fox.mp3", cwd=tmp_path, environ=environ)

    assert printed.startswith("fox.mp3: ")
    check_speech((tmp_path / "fox.mp3").read_bytes(), "mp3", *PACE)


def test_openai_stream_plays_what_it_writes(
    tmp_path: Path, environ: dict[str, str], recorder: Path
) -> None:
    run("openai_stream.py", TEXT, "fox.wav", cwd=tmp_path, environ=environ)

    written = check_speech((tmp_path / "fox.wav").read_bytes(), "wav", *PACE)
    assert hear(recorder.read_bytes(), "pcm").samples.tolist() == written.samples.tolist()


def test_openai_stream_prefers_sounddevice(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "sounddevice.py").write_text(STAND_IN_MODULE)

    run("openai_stream.py", TEXT, cwd=tmp_path, environ=environ | {"PYTHONPATH": str(tmp_path)})

    check_speech((tmp_path / "hello.wav").read_bytes(), "wav", *PACE)
    check_speech((tmp_path / "played").read_bytes(), "pcm", *PACE)


def test_openai_stream_says_so_if_nothing_plays(tmp_path: Path, environ: dict[str, str]) -> None:
    environ["PATH"] = str(tmp_path)
    printed = run("openai_stream.py", TEXT, cwd=tmp_path, environ=environ)

    assert "Nothing here plays audio" in printed
    check_speech((tmp_path / "hello.wav").read_bytes(), "wav", *PACE)


def test_openai_sse_writes_the_audio_and_shows_its_usage(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    printed = run("openai_sse.py", TEXT, "fox.mp3", cwd=tmp_path, environ=environ)

    assert "total_tokens" in printed
    check_speech((tmp_path / "fox.mp3").read_bytes(), "mp3", *PACE)


def test_openai_async_speaks_each_text_into_its_own_file(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    run("openai_async.py", "One.", TEXT, f"{TEXT} {TEXT}", cwd=tmp_path, environ=environ)

    bodies = [(tmp_path / f"speech-{number}.mp3").read_bytes() for number in (1, 2, 3)]
    lengths = [check_speech(body, "mp3", 0.2, 6.0).duration_s for body in bodies]
    assert 2 * lengths[0] < lengths[1] < 0.7 * lengths[2]


def test_speak_sh_writes_a_file_plays_and_prints_events(
    tmp_path: Path, environ: dict[str, str], recorder: Path
) -> None:
    text = 'Say "hello"\nto the \\ brown fox.'
    printed = run("speak.sh", text, cwd=tmp_path, environ=environ)

    check_speech((tmp_path / "hello.mp3").read_bytes(), "mp3", *PACE)
    check_speech(recorder.read_bytes(), "pcm", *PACE)
    assert printed.startswith('data: {"type":"speech.audio.delta","audio":"')
    assert 'data: {"type":"speech.audio.done","usage":{' in printed


def test_speak_sh_without_a_player_keeps_the_samples(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    environ["PATH"] = str(tmp_path)
    for program in ("bash", "cat", "curl", "cut", "tr"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)

    assert "hello.pcm" in run("speak.sh", TEXT, cwd=tmp_path, environ=environ)

    check_speech((tmp_path / "hello.pcm").read_bytes(), "pcm", *PACE)


def test_speak_sh_shows_what_the_server_refuses(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", str(EXAMPLES / "speak.sh"), "..."],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "400" in done.stderr
