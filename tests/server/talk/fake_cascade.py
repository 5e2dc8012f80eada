"""A cascade in the test's own process: thoughts and sound by script."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from engine.errors import InvalidRequestError, VoxloomError
from engine.messages import SamplingParams
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig, StageConfig, Voice
from tests.server.fake_engine import FakeEngine
from worker.models.thinker.adapter import transform_cascade

RATE = 24000
NAMES = ("vad", "whisper", "think", "read", "speak")
PIPELINE = PipelineConfig(
    name="cascade",
    description="talks",
    sample_rate=RATE,
    input_type="audio",
    stages=tuple(StageConfig(name=name, model="x:y") for name in NAMES),
)


def thought(delta: str = "", **fields: Any) -> dict[str, Any]:
    return {"delta": delta, "calls": [], "finish_reason": None, "usage": None} | fields


def call(index: int = 0, call_id: str = "", name: str = "", arguments: str = "") -> dict[str, Any]:
    return {"index": index, "id": call_id, "name": name, "arguments": arguments}


@dataclass
class Plot:
    """What an answer is: thoughts, numbers of samples, or an error."""

    parts: list[dict[str, Any] | int | VoxloomError] = field(default_factory=list)


def telling(text: str, num_samples: int = 0, **usage: int) -> Plot:
    sound = [num_samples] if num_samples else []
    spent = {"prompt_tokens": 7, "completion_tokens": 3} | usage
    return Plot([thought(text), *sound, thought(finish_reason="stop", usage=spent)])


class FakeCascade(FakeEngine):
    """Answers every request with the plot."""

    pipeline = PIPELINE
    transform = staticmethod(partial(transform_cascade, languages=("en",)))
    voices: tuple[Voice, ...] = (Voice("anna", "Anna", "en", "female", "clear", ("alloy",)),)

    def __init__(self, plot: Plot) -> None:
        super().__init__()
        self.plot = plot
        self.is_ready = True

    def find_voice(self, name: str) -> Voice:
        if name not in ("anna", "alloy"):
            raise InvalidRequestError("unknown voice; the voices are: anna", param="voice")
        return self.voices[0]

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
        self.calls.append({"request_id": request_id, "prompt": prompt})
        self.calls[-1] |= {"final_stage_id": final_stage_id, **arguments}
        self.calls[-1] |= {"sampling": sampling_params_list}
        speaks = final_stage_id == NAMES.index("speak")
        position = 0
        self.num_open += 1
        try:
            for part in self.plot.parts:
                if isinstance(part, VoxloomError):
                    raise part
                if isinstance(part, dict):
                    yield OmniRequestOutput(request_id, 2, payload={"thought": part})
                elif speaks:
                    pcm = memoryview(bytes(range(256)) * (part // 128 + 1))[: 2 * part]
                    yield OmniRequestOutput(request_id, 4, pcm, position, part, RATE)
                    position += part
        finally:
            self.num_open -= 1
            ticket.release()
