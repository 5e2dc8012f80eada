"""What a caller of the engine gets back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """The answer to one interaction; ``error`` is set when it was refused."""

    event_id: str
    kind: str
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class OmniRequestOutput:
    """One piece of a request's output.

    ``audio`` is int16 little-endian mono at ``sample_rate`` Hz, whole samples, placed at
    ``start_sample`` of the request's stream. ``payload`` holds what else the stage said. Exactly
    one output of a request has ``finished``; a failure is raised instead.
    """

    request_id: str
    stage_id: int
    audio: memoryview | None = None
    start_sample: int = 0
    num_samples: int = 0
    sample_rate: int = 0
    payload: dict[str, Any] = field(default_factory=dict)
    finished: bool = False
    warnings: tuple[str, ...] = ()
    interaction: InteractionResult | None = None
    queue_wait_ms: float = 0.0
