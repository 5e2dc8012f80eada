"""What a caller of the engine gets back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.errors import error_from_code
from engine.messages import AckMessage, ErrorMessage, ToCaller


@dataclass(frozen=True, slots=True)
class OmniInteractionPrompt:
    """A control message to a running request.

    ``kind``: ``interrupt`` (argument ``played_ms``: what the listener has heard), ``flush``,
    ``pause``, ``resume``, or ``update`` (arguments: the prompt keys to change, such as ``voice``
    and ``speed``). The answer repeats ``event_id``.
    """

    event_id: str
    kind: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InteractionResult:
    """The answer to one interaction.

    ``error`` says why it was refused, ``code`` and ``param`` as an exception would.
    """

    event_id: str
    kind: str
    result: dict[str, Any] = field(default_factory=dict)
    error: str | None = None
    code: str | None = None
    param: str | None = None

    def check(self) -> None:
        """Raise the refusal as the exception that it stands for, if it is one."""
        if self.error is not None:
            raise error_from_code(self.code or "", self.error, self.param)


@dataclass(frozen=True, slots=True)
class OmniRequestOutput:
    """One piece of a request's output.

    ``audio`` is int16 little-endian mono at ``sample_rate`` Hz, whole samples, placed at
    ``start_sample`` of the request's stream. ``payload`` holds what else the stage said. Exactly
    one output of a request has ``finished``; a failure is raised instead. ``prompt_text`` is the
    request's, or the text of its prompt. ``preprocess_ms`` is how long input processing took, and
    part of ``queue_wait_ms``: from the arrival until the first stage took the request.
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
    prompt_text: str | None = None
    queue_wait_ms: float = 0.0
    preprocess_ms: float = 0.0


def refused(message: ErrorMessage) -> InteractionResult:
    """What a caller gets for the refusal of an interaction."""
    return InteractionResult(
        message.event_id or "",
        message.kind,
        error=message.message,
        code=message.code,
        param=message.param,
    )


def to_output(
    message: ToCaller,
    sample_rate: int,
    warnings: tuple[str, ...] = (),
    prompt_text: str | None = None,
) -> OmniRequestOutput:
    """What a caller gets for a message. Raises the error that a fatal one stands for."""
    request_id = message.request_id
    match message:
        case ErrorMessage():
            if message.fatal:
                raise error_from_code(message.code, message.message, message.param)
            answer = refused(message)
            return OmniRequestOutput(
                request_id, 0, interaction=answer, warnings=warnings, prompt_text=prompt_text
            )
        case AckMessage():
            answer = InteractionResult(message.event_id, message.kind, message.result)
            return OmniRequestOutput(
                request_id, 0, interaction=answer, warnings=warnings, prompt_text=prompt_text
            )
    payload = dict(message.payload or {})
    audio = payload.pop("audio", None)
    return OmniRequestOutput(
        request_id=request_id,
        stage_id=message.stage_id,
        audio=None if audio is None else audio.data.cast("B"),
        start_sample=message.start_sample,
        num_samples=message.num_samples,
        sample_rate=sample_rate,
        payload=payload,
        finished=message.finished,
        warnings=warnings,
        prompt_text=prompt_text,
        queue_wait_ms=message.queue_wait_ms,
        preprocess_ms=message.preprocess_ms,
    )
