"""What each link between the orchestrator and its replicas carries, and what keys cost on it.

The frames of every message are counted where the orchestrator sends and receives them, heartbeats
left out. The links are then compared: chunks of the measured size from a worker's socket to the
orchestrator's, over a UNIX socket, over TCP, over TCP with CURVE, all on this machine.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import zmq

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.texts import sentences
from engine.async_omni_engine import AsyncOmniEngine
from engine.messages import OutputRow, Ping, Pong, StageOutput
from engine.pipeline import load_pipeline
from engine.placement.curve_server import CurveServer
from engine.placement.keys import WorkerKeys, new_server_keys
from engine.wire import Frame, encode


class Counts:
    """Bytes, messages and their rows on each link."""

    def __init__(self) -> None:
        self.num_bytes: Counter[str] = Counter()
        self.num_messages: Counter[str] = Counter()
        self.num_rows: Counter[str] = Counter()

    def add(self, link: str, message: Any) -> None:
        if isinstance(message, Ping | Pong):
            return
        self.num_bytes[link] += sum(len(frame) for frame in encode(message))
        self.num_messages[link] += 1
        if isinstance(message, StageOutput):
            self.num_rows[link] += len(message.rows)


def run(options: Options) -> Report:
    """What each link carries per second of audio, and how much each transport takes."""
    num_texts = options.pick(40, 3)
    counts = Counts()
    audio_s, _ = run_async(_speak_all(options.pipeline, num_texts, counts))
    uncounted_s, cpu_s = run_async(_speak_all(options.pipeline, num_texts, None))
    figures = [
        *_per_audio_s("bytes", counts.num_bytes, audio_s),
        *_per_audio_s("messages", counts.num_messages, audio_s),
        *_per_audio_s("outputs of requests", counts.num_rows, audio_s),
        Figure("CPU time of the engine's process", 1e6 * cpu_s / uncounted_s, "us/audio s"),
    ]
    last = max(counts.num_bytes, key=lambda link: counts.num_bytes[link])
    chunk_bytes = counts.num_bytes[last] // counts.num_messages[last]
    for name, rate in link_rates(chunk_bytes, options.pick(20_000, 500)).items():
        label = f"chunks of {chunk_bytes} bytes over {name}"
        figures.append(Figure(label, rate, "messages/s"))
    return Report("traffic", figures, {"audio_s": audio_s, "chunk_bytes": chunk_bytes})


def _per_audio_s(what: str, counter: Counter[str], audio_s: float) -> list[Figure]:
    return [
        Figure(f"{what}, {link}", counter[link] / audio_s, "1/audio s") for link in sorted(counter)
    ]


async def _speak_all(
    pipeline_name: str, num_texts: int, counts: Counts | None
) -> tuple[float, float]:
    """Seconds of audio, and of this process's CPU time for it."""
    pipeline = load_pipeline(pipeline_name)
    engine = AsyncOmniEngine(pipeline)
    if counts is not None:
        _count_messages(engine, counts, [stage.name for stage in pipeline.stages])
    engine.start()
    await engine.wait_ready(120)
    texts = sentences(11, num_texts, 20)
    cpu_s = time.process_time()
    lengths = await asyncio.gather(
        *(_speak(engine, f"r{number}", text) for number, text in enumerate(texts))
    )
    cpu_s = time.process_time() - cpu_s
    await engine.shutdown(0.1)
    return sum(lengths), cpu_s


def _count_messages(engine: AsyncOmniEngine, counts: Counts, names: list[str]) -> None:
    """Look at each message as the orchestrator sends or handles it."""
    orchestrator = engine._orchestrator
    send, handle = orchestrator._send, orchestrator.core.handle_replica

    def counting_send(socket: Any, replica_id: str, message: Any) -> None:
        counts.add(f"orchestrator to {_stage(replica_id, names)}", message)
        send(socket, replica_id, message)

    def counting_handle(replica_id: str, message: Any, now: float) -> Any:
        counts.add(f"{_stage(replica_id, names)} to orchestrator", message)
        return handle(replica_id, message, now)

    vars(orchestrator)["_send"] = counting_send
    vars(orchestrator.core)["handle_replica"] = counting_handle


def _stage(replica_id: str, names: list[str]) -> str:
    return next(name for name in names if replica_id.startswith(f"{name}-"))


async def _speak(engine: AsyncOmniEngine, request_id: str, text: str) -> float:
    audio_s = 0.0
    async for output in engine.generate(request_id, {"text": text}):
        if output.audio is not None:
            audio_s += output.num_samples / output.sample_rate
    return audio_s


def link_rates(chunk_bytes: int, num_messages: int) -> dict[str, float]:
    """Messages per second from a DEALER to a ROUTER, a chunk of audio each."""
    server = CurveServer(new_server_keys(), None)
    keys = server.issue("worker")
    chunk = OutputRow("request-0", {"audio": np.zeros(chunk_bytes // 2, np.int16)})
    frames = encode(StageOutput([chunk], 1, 1, 1.0))
    with tempfile.TemporaryDirectory() as folder:
        ipc = f"ipc://{Path(folder) / 'link'}"
        return {
            "a UNIX socket": _rate(ipc, frames, num_messages, None, None),
            "TCP": _rate("tcp://127.0.0.1:*", frames, num_messages, None, None),
            "TCP with CURVE": _rate("tcp://127.0.0.1:*", frames, num_messages, server, keys),
        }


def _rate(
    endpoint: str,
    frames: list[Frame],
    num_messages: int,
    server: CurveServer | None,
    keys: WorkerKeys | None,
) -> float:
    with zmq.Context() as context:
        router = context.socket(zmq.ROUTER)
        if server is not None:
            server.start(context)
            server.secure(router)
        router.bind(endpoint)
        bound = router.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
        sender = threading.Thread(target=_send_all, args=(bound, frames, num_messages, keys))
        sender.start()
        router.recv_multipart()
        started = time.perf_counter()
        for _ in range(num_messages - 1):
            router.recv_multipart()
        rate = (num_messages - 1) / (time.perf_counter() - started)
        sender.join()
        router.close(0)
        if server is not None:
            server.stop()
    return rate


def _send_all(
    endpoint: str, frames: list[Frame], num_messages: int, keys: WorkerKeys | None
) -> None:
    with zmq.Context() as context:
        socket = context.socket(zmq.DEALER)
        if keys is not None:
            socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public_key.encode())
            socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret_key.encode())
            socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_key.encode())
        socket.connect(endpoint)
        for _ in range(num_messages):
            socket.send_multipart(frames)
        socket.close()
