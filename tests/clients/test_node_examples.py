"""The examples for Node, with the packages of their lock file (``make test`` installs them)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.clients.speech import check_speech, hear

FOLDER = Path(__file__).parents[2] / "examples" / "node"
TEXT = "Say hello to the brown fox. It costs $3.50."


def run(
    name: str, *arguments: str, cwd: Path, environ: dict[str, str]
) -> subprocess.CompletedProcess[bytes]:
    assert (FOLDER / "node_modules").is_dir(), "npm ci --prefix examples/node has not been run"
    address = environ["OPENAI_BASE_URL"].removesuffix("/v1").replace("http:", "ws:")
    return subprocess.run(
        ["node", str(FOLDER / name), *arguments],
        cwd=cwd,
        env={"VOXLOOM_URL": address} | environ,
        capture_output=True,
        timeout=300,
    )


def test_every_example_is_tested_and_short() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    programs = list(FOLDER.glob("*.mjs"))

    assert len(programs) == 2
    for path in programs:
        assert f'"{path.name}"' in tested
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 55


def test_the_lock_file_names_no_registry() -> None:
    packages = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))["packages"]

    assert not any("resolved" in package for package in packages.values())


def test_speak_writes_a_file(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run("speak.mjs", TEXT, "fox.mp3", cwd=tmp_path, environ=environ)

    assert done.returncode == 0, done.stderr
    file = (tmp_path / "fox.mp3").read_bytes()
    assert done.stdout.decode() == f"fox.mp3: {len(file)} bytes\n"
    check_speech(file, "mp3", 2.5, 6.0)


def test_speak_fails_for_a_text_that_cannot_be_spoken(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = run("speak.mjs", "...", cwd=tmp_path, environ=environ)

    assert done.returncode != 0
    assert b"400 input holds nothing that can be spoken" in done.stderr


def test_words_prints_each_word_when_it_is_heard(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run("words.mjs", TEXT, cwd=tmp_path, environ=environ)

    assert done.returncode == 0, done.stderr
    assert done.stderr.decode().split() == TEXT.split()
    assert 2.5 < hear(done.stdout, "pcm").duration_s < 6.0


def test_words_says_when_nobody_is_there(tmp_path: Path, environ: dict[str, str]) -> None:
    done = run("words.mjs", cwd=tmp_path, environ=environ | {"VOXLOOM_URL": "ws://127.0.0.1:1"})

    assert done.returncode == 1
    assert b"ECONNREFUSED" in done.stderr
