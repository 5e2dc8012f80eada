"""The examples, as a user runs them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.speech import check_speech, hear
from tests.clients.talking import said, talking

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
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def failure(name: str, environ: dict[str, str]) -> str:
    """What an example says that ends because it cannot go on."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


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
        assert f'"{path.name}"' in tested
        assert num_code_lines(path) <= 48


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


@pytest.fixture
def llm(environ: dict[str, str]) -> Iterator[None]:
    """A language model that writes ``TEXT`` and a bit more, 50 tokens a second."""
    text = f"{TEXT} It says hello, too."
    arguments = [sys.executable, "-m", "tests.clients.llm_process", "50", text]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = process.stdout.readline().removeprefix("ready ").strip()
        environ["LLM_BASE_URL"] = f"http://127.0.0.1:{port}/v1"
        yield
        process.terminate()


def socket_address(environ: dict[str, str]) -> dict[str, str]:
    address = environ["OPENAI_BASE_URL"].removesuffix("/v1")
    return environ | {"VOXLOOM_URL": address.replace("http:", "ws:")}


@pytest.mark.usefixtures("llm")
def test_llm_to_speech_speaks_what_the_model_writes(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "llm_to_speech.py"), "What do you say?"],
        cwd=tmp_path,
        env=socket_address(environ),
        capture_output=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr.decode() == f"{TEXT} It says hello, too."
    check_speech(done.stdout, "pcm", 2.0, 5.0)


def test_barge_in_tells_what_was_heard(
    tmp_path: Path, environ: dict[str, str], recorder: Path
) -> None:
    text = " ".join([TEXT] * 20)
    program = [sys.executable, str(EXAMPLES / "barge_in.py"), text]
    with subprocess.Popen(
        program,
        cwd=tmp_path,
        env=socket_address(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        while not (recorder.exists() and recorder.stat().st_size > 0):
            assert process.poll() is None
        printed, _ = process.communicate("\n", timeout=300)

    heard = printed.removeprefix("Heard: ").strip()
    assert process.returncode == 0
    assert text.startswith(heard)
    assert len(heard) < len(text) // 2


def test_barge_in_lets_a_text_be_heard_to_its_end(
    tmp_path: Path, environ: dict[str, str], recorder: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "barge_in.py"), "Hello."],
        cwd=tmp_path,
        env=socket_address(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "Heard all of it.\n"

    check_speech(recorder.read_bytes(), "pcm", 0.2, 2.0)


@pytest.mark.parametrize("name", ["fox.vtt", "fox.srt"])
def test_subtitles_tell_when_each_line_is_spoken(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    text = f"{TEXT} And then it paid $3.50 for a cup of coffee that it did not drink!"
    run("subtitles.py", text, "fox.mp3", name, cwd=tmp_path, environ=environ)

    heard = check_speech((tmp_path / "fox.mp3").read_bytes(), "mp3", 4.0, 10.0)
    written = (tmp_path / name).read_text(encoding="utf-8")
    cues = [cue.split("\n") for cue in written.removeprefix("WEBVTT\n\n").strip().split("\n\n")]
    assert written.startswith("WEBVTT") == name.endswith(".vtt")
    assert " ".join(line for _, _, line in cues) == text
    assert all(len(line) <= 42 for _, _, line in cues)
    mark = "," if name.endswith(".srt") else "."
    times = [time.replace(mark, ".").split(":") for cue in cues for time in cue[1].split(" --> ")]
    seconds = [60 * int(minute) + float(second) for _, minute, second in times]
    assert seconds == sorted(seconds)
    assert heard.duration_s - 1 < seconds[-1] <= heard.duration_s


@pytest.mark.model
@pytest.mark.process
@pytest.mark.asr
def test_voice_agent_answers_what_it_hears(
    tmp_path: Path, environ: dict[str, str], recorder: Path
) -> None:
    (tmp_path / "question").write_bytes(said("How do I get to the museum?", silence_s=2.0))
    microphone = recorder.parent / "bin" / "arecord"
    microphone.write_text("#!/bin/sh\nexit 1\n")
    microphone.chmod(0o755)
    with talking() as talk:
        here = {"VOXLOOM_URL": f"ws://127.0.0.1:{talk.server.port}"}
        assert "is there a microphone?" in failure("voice_agent.py", environ | here)
        microphone.write_text(f"#!/bin/sh\nexec cat '{tmp_path / 'question'}'\n")
        printed = run("voice_agent.py", cwd=tmp_path, environ=environ | here)

    assert "You said" in printed
    assert "museum" in printed
    check_speech(recorder.read_bytes(), "pcm", 1.0, 5.0)


@pytest.mark.client
def test_voice_agent_says_which_program_is_missing_and_ends(
    environ: dict[str, str], recorder: Path
) -> None:
    nothing = environ | {"PATH": ""}
    assert failure("voice_agent.py", nothing).startswith("arecord and aplay cannot be found")
    with_player = environ | {"PATH": str(recorder.parent / "bin")}
    assert failure("voice_agent.py", with_player).startswith("arecord cannot be found")
