"""An engine in the test's own process: a sine as long as the text, and failures by script.

It stands at the same place as ``AsyncOmniEngine`` and keeps its promises: tickets, one terminal,
abort when the generator is closed.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from engine.admission import AdmissionController, AdmissionTicket
from engine.errors import InvalidRequestError
from engine.messages import Prompt, SamplingParams
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig, StageConfig, Voice
from engine.trace import current_trace
from tests.server.fake_streams import CHUNK_SAMPLES as CHUNK_SAMPLES
from tests.server.fake_streams import RATE as RATE
from tests.server.fake_streams import SAMPLES_PER_CHAR as SAMPLES_PER_CHAR
from tests.server.fake_streams import FakeStreams
from tests.server.fake_streams import sine as sine

PIPELINE = PipelineConfig(
    name="sine",
    description="a sine",
    sample_rate=RATE,
    models=("sine", "org/sine"),
    stages=(
        StageConfig(name="text", model="x:y", default_sampling=SamplingParams(temperature=0.5)),
        StageConfig(name="wave", model="x:z", engine_output_type="audio"),
    ),
)
VOICES = (
    Voice("anna", "Anna", "en", "female", "clear", ("alloy", "nova")),
    Voice("ben", "Ben", "en", "male", "deep", ("onyx",)),
)


@dataclass
class Script:
    """What the next requests meet. ``before_chunk`` is awaited with each chunk's number.

    ``late_warnings`` come behind the last chunk.
    """

    fail_at_chunk: int | None = None
    error: Exception = field(default_factory=lambda: RuntimeError("secret detail"))
    warnings: tuple[str, ...] = ()
    late_warnings: tuple[str, ...] = ()
    before_chunk: Callable[[int], Any] | None = None
    no_audio: bool = False
    words: tuple[tuple[int, int, int, int], ...] = ()


class _Metrics:
    registry = CollectorRegistry()


class FakeEngine(FakeStreams):
    """See the module."""

    pipeline = PIPELINE
    voices: tuple[Voice, ...] = VOICES
    metrics = _Metrics()
    # What its model family refuses: nothing.
    transform: Callable[[Prompt], Prompt] = dict

    def __init__(self, script: Script | None = None, max_running: int = 8) -> None:
        super().__init__()
        self.script = script or Script()
        self.admission = AdmissionController(max_running, 0)
        self.calls: list[dict[str, Any]] = []
        self.num_open = 0
        self.num_aborted = 0
        self.draining = threading.Event()
        self.is_ready = False

    def start(self) -> None:
        self.is_ready = True

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        self.is_ready = True

    async def shutdown(self, drain_timeout_s: float | None = None) -> None:
        self.admission.close()
        self.is_ready = False
        self.draining.set()

    def readiness(self) -> dict[str, Any]:
        stages = {
            stage.name: {"ready": int(self.is_ready), "wanted": 1} for stage in PIPELINE.stages
        }
        return {"ready": self.is_ready, "failure": None, "stages": stages}

    def find_voice(self, name: str) -> Voice:
        for voice in VOICES:
            if name.casefold() in (voice.id, *voice.aliases):
                return voice
        known = ", ".join(voice.id for voice in VOICES)
        raise InvalidRequestError(f"unknown voice {name[:64]!r}; known: {known}", param="voice")

    def check_prompt(self, prompt: dict[str, Any]) -> None:
        self.transform(prompt)

    def admit(self) -> AdmissionTicket:
        return self.admission.take()

    async def generate(
        self,
        request_id: str,
        prompt: dict[str, Any],
        *,
        sampling_params_list: list[SamplingParams] | None = None,
        final_stage_id: int | None = None,
        ticket: Any = None,
        **arguments: Any,
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        deadline, trace = arguments.get("deadline"), dict(current_trace.get())
        self.calls.append({"request_id": request_id, "prompt": prompt, "deadline": deadline})
        self.calls[-1] |= {"sampling": sampling_params_list, "trace": trace}
        if not any(char.isalnum() for char in prompt["text"]):
            raise InvalidRequestError("input holds nothing that can be spoken", param="input")
        self.num_open += 1
        is_done = False
        try:
            async for output in self._outputs(request_id, len(prompt["text"])):
                yield output
            is_done = True
        finally:
            self.num_open -= 1
            self.num_aborted += not is_done
            ticket.release()

    async def _outputs(
        self, request_id: str, num_chars: int
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        pcm = b"" if self.script.no_audio else sine(num_chars * SAMPLES_PER_CHAR)
        step = CHUNK_SAMPLES * 2
        for number, start in enumerate(range(0, len(pcm), step)):
            if self.script.before_chunk is not None:
                await self.script.before_chunk(number)
            if number == self.script.fail_at_chunk:
                raise self.script.error
            piece = memoryview(pcm)[start : start + step]
            warnings = self.script.warnings if number == 0 else ()
            # A word comes with the chunk in which it begins.
            span = range(start // 2, start // 2 + CHUNK_SAMPLES)
            words = [word for word in self.script.words if word[0] in span]
            yield OmniRequestOutput(
                request_id,
                1,
                piece,
                start // 2,
                len(piece) // 2,
                RATE,
                {"words": words},
                False,
                warnings,
            )
        late = {"warnings": list(self.script.late_warnings)}
        yield OmniRequestOutput(request_id, 1, payload=late, finished=True)
