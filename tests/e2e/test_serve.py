"""The server as its users run it: processes, sockets and signals, with the tone pipeline."""

from __future__ import annotations

import http.client
import io
import json
import signal
import socket
import subprocess
import sys
import wave
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.server_process import ServerProcess, is_running, serving

pytestmark = pytest.mark.process

SINE = ("--pipeline", "sine")
TEXT = "One two three four five six seven."
# Far more audio than is buffered anywhere on its way, so that it runs until its client goes.
LONG = "word " * 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with serving(*SINE) as server:
        yield server


def test_the_same_seed_gives_the_same_bytes(server: ServerProcess) -> None:
    first, second = (server.speak(TEXT, seed=5).read() for _ in range(2))

    assert len(first) > 4800
    assert first == second


@pytest.mark.parametrize(
    ("fmt", "magic"),
    [("mp3", b"\xff\xf3"), ("opus", b"OggS"), ("aac", b"\xff\xf1"), ("flac", b"fLaC")],
)
def test_every_format_comes_through(server: ServerProcess, fmt: str, magic: bytes) -> None:
    answer = server.speak(TEXT, response_format=fmt)

    assert answer.status == 200
    assert answer.read().startswith(magic)


def test_a_wav_holds_the_samples_of_the_pcm(server: ServerProcess) -> None:
    pcm = server.speak(TEXT, seed=1).read()

    with wave.open(io.BytesIO(server.speak(TEXT, seed=1, response_format="wav").read())) as file:
        assert file.readframes(file.getnframes()) == pcm


def test_events_end_with_done(server: ServerProcess) -> None:
    lines = server.speak(TEXT, stream=True).read().decode().splitlines()

    assert lines[0].startswith('data: {"type":"speech.audio.delta","audio":"')
    assert json.loads(lines[-2].removeprefix("data: "))["type"] == "speech.audio.done"


def test_bad_requests_are_refused_over_the_wire_too(server: ServerProcess) -> None:
    answer = server.speak(TEXT, voice="nobody")

    assert answer.status == 400
    assert "low, high" in json.loads(answer.read())["error"]["message"]


@pytest.mark.parametrize(
    "target", ["/v1/../etc/passwd", "//v1//audio//speech", "/v1/audio/%2e%2e/x", "/%00", "*", "/\\"]
)
def test_odd_targets_are_not_found(server: ServerProcess, target: str) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nconnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.split(b" ", 2)[1] in (b"404", b"400")
    assert b'{"error":{"message":' in answer


def test_a_client_that_leaves_frees_its_request(server: ServerProcess) -> None:
    running = 'voxloom_engine_requests{state="running"}'
    ended = 'voxloom_requests_total{outcome="disconnected",route="/v1/audio/speech"}'
    num_ended = server.metric(ended)
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as connection:
        body = json.dumps({"input": LONG, "response_format": "pcm"}).encode()
        head = f"POST /v1/audio/speech HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        server.await_metric(running, 1)

    server.await_metric(running, 0)
    server.await_metric(ended, num_ended + 1)


def test_each_of_many_at_once_gets_its_own_audio(server: ServerProcess) -> None:
    texts = [f"{'word ' * (number % 7 + 1)}{number}" for number in range(24)]
    alone = [server.speak(text, seed=number).read() for number, text in enumerate(texts)]
    with ThreadPoolExecutor(12) as threads:
        together = threads.map(
            lambda item: server.speak(item[1], seed=item[0]).read(), enumerate(texts)
        )

        assert list(together) == alone


def test_sigterm_lets_a_running_answer_end_and_leaves_no_process() -> None:
    with serving(*SINE) as server:
        whole = len(server.speak(TEXT * 50, seed=1).read())
        workers = server.worker_pids()
        answer = server.speak(TEXT * 50, seed=1)
        server.process.send_signal(signal.SIGTERM)

        assert len(answer.read()) == whole
        assert server.wait() == -signal.SIGTERM
        assert len(workers) == 2
        assert not any(is_running(pid) for pid in workers)


def test_a_client_that_never_reads_does_not_hold_up_the_end() -> None:
    with serving(*SINE, environ={"VOXLOOM_ENGINE_DRAIN_TIMEOUT_S": "0.5"}) as server:
        answer = server.speak(LONG)
        server.process.send_signal(signal.SIGTERM)

        assert server.wait() == -signal.SIGTERM
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_settings_come_from_file_environment_and_command_line(tmp_path: Path) -> None:
    config = tmp_path / "voxloom.yaml"
    config.write_text("server: {pipeline: sine, max_input_chars: 5}\nengine: {max_waiting: 0}\n")
    environ = {"VOXLOOM_CONFIG": str(config), "VOXLOOM_API_KEY": "k"}

    with serving("--host", "localhost", environ=environ) as server:
        assert server.get("/v1/models").status == 401
        connection = server.connect()
        body = json.dumps({"input": "too long"})
        connection.request("POST", "/audio/speech", body, {"authorization": "Bearer k"})
        assert "at most 5" in connection.getresponse().read().decode()


def test_a_stage_that_cannot_start_ends_the_server_with_its_reason(tmp_path: Path) -> None:
    pipeline = tmp_path / "broken.yaml"
    pipeline.write_text(
        "name: broken\ndescription: cannot start\n"
        "stages: [{name: s, model: 'worker.models.nothing:load', engine_output_type: audio}]\n"
    )
    environ = {"VOXLOOM_ENGINE_MAX_RESTARTS": "0"}

    with serving("--pipeline", str(pipeline), ready=False, environ=environ) as server:
        assert server.wait() == 1
    assert server.log[-1].startswith("voxloom: error: ")
    assert "worker.models.nothing" in server.log[-1]


def test_a_port_that_is_taken_is_a_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with serving(*SINE, "--port", port, ready=False) as server:
            assert server.wait() == 1
        assert "Address already in use" in server.log[-1]
        assert server.worker_pids() == []


def test_the_api_process_loads_no_model_library() -> None:
    code = (
        "import sys\n"
        "from engine.async_omni_engine import AsyncOmniEngine\n"
        "from engine.pipeline import load_pipeline\n"
        "from server.app import create_app\n"
        "import server.commands.serve\n"
        "for name in ('hibari', 'sine'):\n"
        "    create_app(AsyncOmniEngine(load_pipeline(name))).openapi()\n"
        "print([m for m in ('torch', 'onnxruntime', 'vllm', 'hibari') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
