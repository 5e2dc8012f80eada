"""What the server needs of the engine; ``engine.async_omni_engine.AsyncOmniEngine`` has it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from prometheus_client import CollectorRegistry

from engine.messages import SamplingParams
from engine.outputs import InteractionResult, OmniInteractionPrompt, OmniRequestOutput
from engine.pipeline import PipelineConfig, Voice


class Ticket(Protocol):
    """The right to run one request."""

    def release(self) -> None:
        """Give it back; harmless if the engine has done so."""


class MetricsPort(Protocol):
    """The engine's collectors."""

    @property
    def registry(self) -> CollectorRegistry: ...


class EnginePort(Protocol):
    """See design: engine. Errors are those of ``engine.errors``."""

    @property
    def pipeline(self) -> PipelineConfig: ...

    @property
    def voices(self) -> tuple[Voice, ...]: ...

    @property
    def metrics(self) -> MetricsPort: ...

    @property
    def is_ready(self) -> bool: ...

    def readiness(self) -> dict[str, Any]:
        """``ready``, ``failure`` (a reason or None) and ``stages`` (replicas of each)."""

    def start(self) -> None:
        """Start the stages; returns at once."""

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Raises ``UnavailableError`` if a stage cannot start."""

    async def shutdown(self, drain_timeout_s: float | None = None) -> None:
        """Take nothing new, let running requests end, stop the stages."""

    def find_voice(self, name: str) -> Voice:
        """Raises ``InvalidRequestError`` that lists the ids."""

    def check_prompt(self, prompt: dict[str, Any]) -> None:
        """Raises the ``InvalidRequestError`` that a request with this prompt would meet."""

    def admit(self) -> Any:
        """A ``Ticket``. Raises ``OverloadedError`` or ``UnavailableError``."""

    def generate(
        self,
        request_id: str,
        prompt: dict[str, Any],
        *,
        sampling_params_list: list[SamplingParams] | None = None,
        final_stage_id: int | None = None,
        ticket: Any = None,
        **arguments: Any,
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        """The request's outputs; closing the generator aborts the request.

        ``arguments``: ``first_stage_id``, ``final_output_stage_ids``, ``deadline``,
        ``trace_headers``.
        """

    async def add_request_async(
        self,
        request_id: str,
        prompt: dict[str, Any],
        *,
        sampling_params_list: list[SamplingParams] | None = None,
        final_stage_id: int = 0,
        final_output_stage_ids: list[int] | None = None,
        resumable: bool = False,
        deadline: float | None = None,
        ticket: Any = None,
    ) -> None:
        """Open a request; read it with ``outputs``. ``resumable``: it takes more input."""

    async def add_streaming_update_async(
        self, request_id: str, prompt: dict[str, Any], *, resumable: bool = True
    ) -> None:
        """More input for an open request; ``resumable=False``: it was the last."""

    async def submit_interaction_async(
        self, request_id: str, interaction: OmniInteractionPrompt
    ) -> InteractionResult | None:
        """A control message to an open request; a refusal if there is no such request."""

    def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        """The outputs of an open request, to its end."""

    async def abort(self, request_ids: list[str]) -> None:
        """Returns when every stage has let go."""
