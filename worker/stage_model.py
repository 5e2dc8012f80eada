"""What a stage model is to the step loop: one small protocol, and the shape of a step's output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from engine.errors import ConfigError
from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from engine.pipeline import PipelineConfig, StageConfig

Options = TypeVar("Options", bound=msgspec.Struct)


class Readiness:
    """How a model that works in the background says that a request has work now."""

    def __init__(self) -> None:
        self._listener: Callable[[str], None] | None = None

    def connect(self, listener: Callable[[str], None]) -> None:
        """Whom to tell; it is called on any thread."""
        self._listener = listener

    def notify(self, request_id: str) -> None:
        """From any thread: ask ``has_work`` of this request again."""
        if self._listener is not None:
            self._listener(request_id)


@dataclass(frozen=True, slots=True)
class StageContext:
    """What a model is loaded with."""

    pipeline: PipelineConfig
    stage: StageConfig
    stage_id: int
    readiness: Readiness = field(default_factory=Readiness)

    def read_options(self, kind: type[Options]) -> Options:
        """The stage's ``options``. Raises ``ConfigError`` that lists the known ones."""
        try:
            return msgspec.convert(self.stage.options, kind)
        except (msgspec.ValidationError, ValueError) as error:
            known = ", ".join(kind.__struct_fields__)
            message = f"stage {self.stage.name!r}: options: {error}; known: {known}"
            raise ConfigError(message) from error


@dataclass(slots=True)
class RowStatus:
    """How one row of the batch is after a step. It travels beside the payload.

    ``end_position`` is the position in the request's output after this step (samples for audio,
    units for the rest), whether or not the payload that ends there reaches anyone. The request can
    be replayed from input ``units_done``: at its start, or, with a ``checkpoint``, wherever that
    says. The dict is the model's own business: ``add`` gets it back in ``StageRequest.checkpoint``.
    It holds plain values, some hundred bytes at most, since it travels with every row. What is made
    from there starts at ``done_position``. ``error`` fails this request and no other.
    """

    finished: bool = False
    end_position: int = 0
    units_done: int = 0
    done_position: int = 0
    checkpoint: dict[str, Any] | None = None
    error: Exception | None = None


@dataclass(slots=True)
class StepOutput:
    """What a step did.

    ``multimodal_outputs`` holds lists that cover a subset of the batch and declare it (see
    ``worker.sparse_audio``); for audio the list ``audio`` holds int16 arrays [num_samples].
    ``rows`` has one status per request of the batch.
    """

    multimodal_outputs: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, RowStatus] = field(default_factory=dict)


class StageModel(Protocol):
    """A model that computes in batched steps.

    Everything but ``step`` is called on the loop's thread, and but for ``abandon`` never for a
    request whose step is running. ``step`` runs on up to ``steps_in_flight`` threads at once,
    over disjoint batches. ``add`` and ``update`` may raise ``engine.errors.VoxloomError`` to refuse
    the request.
    """

    def add(self, request: StageRequest) -> None: ...

    def update(self, update: StageUpdate) -> None: ...

    def interact(self, interaction: StageInteraction) -> None:
        """A flush or an update of the voice, in its place among the inputs."""
        ...

    def abort(self, request_id: str) -> None:
        """Let go of a request; also called for one that has finished or failed."""
        ...

    def abandon(self, request_id: str) -> None:
        """Nobody wants what the running step makes of this request: it may end early.

        ``abort`` follows when it has ended, whatever it returned.
        """
        ...

    def has_work(self, request_id: str) -> bool:
        """Whether a step would do something for the request now."""
        ...

    def step(self, batch: Sequence[str]) -> StepOutput: ...

    def fingerprint(self) -> Fingerprint: ...

    @property
    def num_requests(self) -> int: ...
