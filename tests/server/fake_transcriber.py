"""An engine in the test's own process that writes down what a script says, window by window.

It keeps the promises that ``Transcription`` relies on: a window is answered by where the next one
begins, its chunks are written down later, and the last window ends the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from engine.admission import AdmissionController, AdmissionTicket
from engine.errors import RequestAbortedError, VoxloomError
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig, StageConfig
from server.audio.decoder import SAMPLE_RATE
from server.engine_life import ServedEngine
from tests.server.fake_engine import FakeEngine

PIPELINE = PipelineConfig(
    name="hear",
    description="writes down",
    sample_rate=SAMPLE_RATE,
    models=("tiny",),
    input_type="audio",
    stages=(
        StageConfig(name="vad", model="x:y"),
        StageConfig(name="whisper", model="x:z", engine_output_type="text"),
    ),
)


def segment(text: str, start: float, end: float, **fields: Any) -> dict[str, Any]:
    """A segment as the recogniser describes it; each word takes its share of the time."""
    words = text.split()
    step = (end - start) / max(1, len(words))
    times = [
        [f" {word}", round(start + i * step, 3), round(start + (i + 1) * step, 3), 0.5]
        for i, word in enumerate(words)
    ]
    return {
        "text": f" {text}",
        "seek": round(start * 100),
        "start": start,
        "end": end,
        "tokens": [1, 2, 3],
        "temperature": 0.0,
        "avg_logprob": -0.2,
        "compression_ratio": 1.1,
        "no_speech_prob": 0.01,
        "words": times,
        **fields,
    }


@dataclass
class Hearing:
    """What the engine makes of each window; ``passages[i]`` are the segments of window i."""

    passages: list[list[dict[str, Any]]] = field(default_factory=list)
    keeps: int = 0
    fail_at_window: int | None = None
    error: Exception = field(default_factory=lambda: RuntimeError("secret detail"))
    before_window: Callable[[int], Any] | None = None


@dataclass
class _Job:
    prompt: dict[str, Any]
    ticket: Any
    windows: list[tuple[int, int, bool]] = field(default_factory=list)
    outputs: asyncio.Queue[dict[str, Any] | VoxloomError | Exception | None] = field(
        default_factory=asyncio.Queue
    )


class _Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        Gauge("voxloom_fake", "a number", ["state"], registry=self.registry).labels("on").set(1)


class FakeTranscriber(FakeEngine):
    """See the module. ``keeps`` samples of each window are left for the next one."""

    pipeline = PIPELINE

    def __init__(self, hearing: Hearing | None = None, max_running: int = 8) -> None:
        super().__init__(max_running=max_running)
        self.hearing = hearing or Hearing([[segment("Hello there.", 0.2, 1.0)]])
        self.metrics = _Metrics()  # type: ignore[assignment]
        self.jobs: dict[str, _Job] = {}
        self.ended: list[_Job] = []  # type: ignore[assignment]
        self.num_starts = 0
        self.admission = AdmissionController(max_running, 0)

    def start(self) -> None:
        self.num_starts += 1
        super().start()

    def readiness(self) -> dict[str, Any]:
        return {"ready": self.is_ready, "failure": None, "stages": {}}

    def admit(self) -> AdmissionTicket:
        return self.admission.take()

    async def add_request_async(
        self, request_id: str, prompt: dict[str, Any], **options: Any
    ) -> None:
        assert options["resumable"]
        assert options["final_output_stage_ids"] == [0, 1]
        self.calls.append({"prompt": prompt, "deadline": options["deadline"]})
        self.jobs[request_id] = _Job(prompt, options["ticket"])

    async def add_streaming_update_async(
        self, request_id: str, prompt: dict[str, Any], *, resumable: bool = True
    ) -> None:
        job, hearing = self.jobs[request_id], self.hearing
        number, first, size = len(job.windows), prompt["first_sample"], len(prompt["audio"])
        if hearing.before_window is not None:
            await hearing.before_window(number)
        job.windows.append((first, size, not resumable))
        if number == hearing.fail_at_window:
            job.outputs.put_nowait(hearing.error)
            return
        segments = hearing.passages[number] if number < len(hearing.passages) else []
        next_sample = first + size - (hearing.keeps if resumable else 0)
        speech = prompt["audio"] if segments else None
        heard = {"speech": speech, "last_sample": next_sample, "next_sample": next_sample}
        job.outputs.put_nowait({"heard": heard})
        if segments:
            written = {"language": "en", "language_name": "english", "segments": segments}
            job.outputs.put_nowait({"transcript": written})
        if not resumable:
            job.outputs.put_nowait(None)

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        job = self.jobs[request_id]
        while (payload := await job.outputs.get()) is not None:
            if isinstance(payload, Exception):
                self._end_job(request_id)
                raise payload
            yield OmniRequestOutput(request_id, 0, payload=payload)
        self._end_job(request_id)
        yield OmniRequestOutput(request_id, 1, finished=True)

    async def abort(self, request_ids: list[str]) -> None:
        for request_id in request_ids:
            if request_id in self.jobs:
                self.num_aborted += 1
                self.jobs[request_id].outputs.put_nowait(RequestAbortedError("aborted"))
                self._end_job(request_id)

    def _end_job(self, request_id: str) -> None:
        job = self.jobs.pop(request_id)
        job.ticket.release()
        self.ended.append(job)

    def served(self, *, is_lazy: bool = False) -> ServedEngine:
        return ServedEngine(self, is_lazy=is_lazy)


def multipart(fields: list[tuple[str, str]], file: bytes | None, name: str = "a.wav") -> Any:
    """The arguments of a request with a form: ``body`` and ``headers``."""
    mark = "----a-boundary"
    parts = [
        f'--{mark}\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields
    ]
    if file is not None:
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        parts.append(head.encode() + b"Content-Type: audio/wav\r\n\r\n" + file + b"\r\n")
    body = b"".join(parts) + f"--{mark}--\r\n".encode()
    return {"body": body, "headers": {"content-type": f"multipart/form-data; boundary={mark}"}}
