"""What callers and the orchestrator tell each other, on two threads of one process.

Part of ``engine.messages``, from where all of it is imported.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from engine.sampling import SamplingParams

Prompt: TypeAlias = dict[str, Any]
Payload: TypeAlias = dict[str, Any]


class CompanionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CFG companion, fully built before its parent is queued."""

    request_id: str
    role: str
    prompt: Prompt
    sampling_params_list: list[SamplingParams]


class Message(msgspec.Struct, tag_field="msg", forbid_unknown_fields=True):
    """Base of all messages; ``msg`` on the wire is the tag."""


# --- caller → orchestrator (same process) --------------------------------------------------------


class StageSubmissionMessage(Message, tag="stage_submission"):
    """A new request, or one more segment of a resumable one.

    Times are seconds: ``request_timestamp`` and ``enqueue_ts`` on the wall clock, ``deadline`` on
    the engine's clock (monotonic). ``preprocess_ms`` is what input processing took.
    ``output_prompt_text`` is what outputs show as the prompt. ``resumable`` false on an update
    closes the request. The stages before ``first_stage_id`` have nothing to do with the request.
    """

    type: Literal["add_request", "streaming_update"]
    request_id: str
    prompt: Prompt
    original_prompt: Prompt
    sampling_params_list: list[SamplingParams]
    final_stage_id: int
    final_output_stage_ids: list[int]
    first_stage_id: int = 0
    output_prompt_text: str | None = None
    lora: str | None = None
    companions: list[CompanionSpec] = msgspec.field(default_factory=list)
    priority: int = 0
    seed: int = 0
    deadline: float | None = None
    resumable: bool = False
    data_parallel_rank: int | None = None
    trace_headers: dict[str, str] = msgspec.field(default_factory=dict)
    preprocess_ms: float = 0.0
    request_timestamp: float = 0.0
    enqueue_ts: float = 0.0


INTERACTION_KINDS: tuple[str, ...] = ("interrupt", "flush", "pause", "resume", "update")


class InteractionMessage(Message, tag="interaction"):
    """A control message to a running request; ``event_id`` is repeated by its answer.

    ``interrupt`` drops what has not been sent, ``flush`` speaks what is buffered although no
    sentence end has come, ``pause`` and ``resume`` hold the sound, ``update`` changes the voice
    from the next segment on. ``refused`` is the answer to one that must not be carried out; it
    takes its place among the other answers.
    """

    request_id: str
    event_id: str
    kind: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    refused: ErrorMessage | None = None


class ConsumedMessage(Message, tag="consumed"):
    """So much of a stage's output the caller has taken in all, measured as credit is."""

    request_id: str
    stage_id: int
    num_taken: int


class AbortMessage(Message, tag="abort"):
    """Let go of these requests in every stage; ``abort_id`` is repeated by the answer."""

    request_ids: list[str]
    abort_id: int


class ScaleMessage(Message, tag="scale"):
    """Set the number of replicas of a stage."""

    stage_id: int
    num_replicas: int


class DrainMessage(Message, tag="drain"):
    """Start nothing new; ``deadline`` (engine clock) ends what is still running then."""

    deadline: float


class ShutdownMessage(Message, tag="shutdown"):
    """Stop every replica and end the orchestrator."""


# --- orchestrator → caller (same process) --------------------------------------------------------


class OutputMessage(Message, tag="output"):
    """A piece of output of a request; ``finished`` marks its last message."""

    request_id: str
    stage_id: int
    payload: Payload | None = None
    start_sample: int = 0
    num_samples: int = 0
    finished: bool = False
    queue_wait_ms: float = 0.0
    preprocess_ms: float = 0.0


class ErrorMessage(Message, tag="error"):
    """The terminal message of a request that failed, or (``fatal`` false) of one interaction.

    The latter repeats the interaction's ``event_id`` and ``kind``.
    """

    request_id: str
    code: str
    message: str
    param: str | None = None
    fatal: bool = True
    event_id: str | None = None
    kind: str = ""


def refusal(
    message: InteractionMessage, code: str, reason: str, param: str | None = None
) -> ErrorMessage:
    """The answer to an interaction that harms nothing and is not carried out."""
    return ErrorMessage(
        message.request_id,
        code,
        reason,
        param,
        fatal=False,
        event_id=message.event_id,
        kind=message.kind,
    )


class AckMessage(Message, tag="ack"):
    """An interaction was carried out."""

    request_id: str
    event_id: str
    kind: str
    result: dict[str, Any] = msgspec.field(default_factory=dict)


class AbortedMessage(Message, tag="aborted"):
    """Every stage has let go of the requests of this abort."""

    abort_id: int


ToOrchestrator: TypeAlias = (
    StageSubmissionMessage
    | InteractionMessage
    | ConsumedMessage
    | AbortMessage
    | ScaleMessage
    | DrainMessage
    | ShutdownMessage
)
ToCaller: TypeAlias = OutputMessage | ErrorMessage | AckMessage
