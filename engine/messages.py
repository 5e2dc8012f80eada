"""Everything that crosses a thread or process boundary, as one closed tagged union.

``engine.wire`` is their form between processes.

Two lanes join the orchestrator and a replica. The *data* lane carries ``StageRequest``,
``StageUpdate`` and outputs; the *control* lane carries what must not wait behind them. Messages of
one lane keep their order. A control message may overtake data on the way: its ``after_seq`` says
how many data messages had been sent to that replica before it, and the replica takes them first.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from engine.caller_messages import INTERACTION_KINDS as INTERACTION_KINDS
from engine.caller_messages import AbortedMessage as AbortedMessage
from engine.caller_messages import AbortMessage as AbortMessage
from engine.caller_messages import AckMessage as AckMessage
from engine.caller_messages import CompanionSpec as CompanionSpec
from engine.caller_messages import ConsumedMessage as ConsumedMessage
from engine.caller_messages import DrainMessage as DrainMessage
from engine.caller_messages import ErrorMessage as ErrorMessage
from engine.caller_messages import InteractionMessage as InteractionMessage
from engine.caller_messages import Message
from engine.caller_messages import OutputMessage as OutputMessage
from engine.caller_messages import Payload as Payload
from engine.caller_messages import Prompt as Prompt
from engine.caller_messages import ScaleMessage as ScaleMessage
from engine.caller_messages import ShutdownMessage as ShutdownMessage
from engine.caller_messages import StageSubmissionMessage as StageSubmissionMessage
from engine.caller_messages import ToCaller as ToCaller
from engine.caller_messages import ToOrchestrator as ToOrchestrator
from engine.caller_messages import refusal as refusal
from engine.sampling import SamplingParams as SamplingParams

PROTOCOL_VERSION = 2

# A credit that no output uses up: 2**62 samples last longer than any replica.
UNLIMITED = 2**62


# --- orchestrator → replica ----------------------------------------------------------------------


class StageRequest(Message, tag="stage_request"):
    """A request for one stage.

    Stage 0 finds its first input in the prompt; a later stage gets all inputs as ``StageUpdate``.
    Inputs are numbered, the prompt of stage 0 being number 0. Outputs have a position: samples for
    audio, else the number of output units before it.

    ``credit`` is how much may be sent in all, and ``num_sent`` what has been: samples of audio, or
    else payloads. Without credit left the request waits for ``StageCredit``.

    The last fields are set when a request is replayed: inputs before ``first_unit`` are done with
    (``prompt`` then only says how to speak) and made ``start_position`` of output, or rather what
    the stage's own ``checkpoint`` of that moment says. Nothing before ``skip_position`` is emitted
    again. Speech begins anew at ``cut_position``: at 0, and where an interrupt cut it. A
    ``suspect`` was running when its last replica died: it is stepped alone, in a trial, until it is
    past what it had done. The ``group_size`` requests of one ``group_id`` are stepped together or
    not at all. What an ``is_final_stage`` makes goes to the caller alone.

    For a language model ``lora`` is the LoRA that the caller asked for, the passages before
    ``first_passage`` were made of inputs that are done with, those before ``open_passage`` have
    ended, and ``prefix_tokens`` are what it had of that one.
    """

    request_id: str
    prompt: Prompt
    sampling: SamplingParams
    seed: int
    priority: int = 0
    resumable: bool = False
    group_id: str | None = None
    group_size: int = 1
    role: str | None = None
    trace_headers: dict[str, str] = msgspec.field(default_factory=dict)
    first_unit: int = 0
    start_position: int = 0
    skip_position: int = 0
    cut_position: int = 0
    checkpoint: dict[str, Any] | None = None
    credit: int = UNLIMITED
    num_sent: int = 0
    paused: bool = False
    suspect: bool = False
    is_final_stage: bool = False
    lora: str | None = None
    first_passage: int = 0
    open_passage: int = 0
    prefix_tokens: list[int] = msgspec.field(default_factory=list)


class StageUpdate(Message, tag="stage_update"):
    """One more input of a request: a text segment for stage 0, a unit of the stage before it else.

    ``final`` says that no further input follows; ``payload`` may then be empty.
    """

    request_id: str
    unit: int
    payload: Payload
    final: bool = False


class StageInteraction(Message, tag="stage_interaction"):
    """A flush or an update of the voice, numbered among the request's inputs."""

    request_id: str
    unit: int
    kind: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class StageAbort(Message, tag="stage_abort"):
    """Let go of these requests; answered by one ``StageReleased``."""

    request_ids: list[str]
    after_seq: int = 0


class StagePause(Message, tag="stage_pause"):
    """Do not schedule this request until ``StageResume``."""

    request_id: str
    after_seq: int = 0


class StageResume(Message, tag="stage_resume"):
    """Schedule this request again."""

    request_id: str
    after_seq: int = 0


class StageCredit(Message, tag="stage_credit"):
    """The request may send ``credit`` in all, see ``StageRequest``. It never gets less."""

    request_id: str
    credit: int
    after_seq: int = 0


class TrialGrant(Message, tag="trial_grant"):
    """Answer to ``TrialAsk``: the orchestrator knows whom to blame if the replica dies now."""

    request_id: str


class Ping(Message, tag="ping"):
    """Heartbeat, answered at once by ``Pong`` with the same ``seq``."""

    seq: int


class Stop(Message, tag="stop"):
    """End the replica's process."""


# --- replica → orchestrator ----------------------------------------------------------------------


class Fingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What decides the bytes: only replicas with equal fingerprints promise the same ones."""

    model_sha256: str
    instruction_set: str
    libraries: dict[str, str]
    num_threads: int


class Hello(Message, tag="hello"):
    """The replica is loaded and ready."""

    replica_id: str
    stage_id: int
    pid: int
    fingerprint: Fingerprint
    protocol_version: int = PROTOCOL_VERSION


class ReplicaFailed(Message, tag="replica_failed"):
    """The replica cannot go on; ``message`` is one sentence for the operator."""

    replica_id: str
    message: str


class OutputRow(msgspec.Struct, forbid_unknown_fields=True):
    """What one step did for one request.

    ``payload`` is absent when the step routed nothing to the request. ``start_sample`` and
    ``num_samples`` place the payload in the request's output, where a unit that is not audio counts
    as one sample; a row without payload tells its position all the same. The request can be
    replayed from input ``units_done``: at its start, or where the stage's own ``checkpoint`` says,
    a dict of some hundred bytes at most. What it makes from there starts at ``done_position``.

    A language model's position counts tokens. ``tokens`` are those that the row covers, to be given
    back in a replay; ``ends_passage`` says that its passage ended with them.
    """

    request_id: str
    payload: Payload | None = None
    start_sample: int = 0
    num_samples: int = 0
    units_done: int = 0
    done_position: int = 0
    checkpoint: dict[str, Any] | None = None
    finished: bool = False
    tokens: list[int] = msgspec.field(default_factory=list)
    ends_passage: bool = False


class StageOutput(Message, tag="stage_output"):
    """All outputs of one step. ``num_batch_rows`` counts the batch, ``rows`` what left it."""

    rows: list[OutputRow]
    num_batch_rows: int
    num_routed_rows: int
    step_ms: float


class StageError(Message, tag="stage_error"):
    """One request failed in this stage, at input ``unit`` if that is known; the replica goes on."""

    request_id: str
    code: str
    message: str
    param: str | None = None
    unit: int | None = None


class StepFailed(Message, tag="step_failed"):
    """A step of several requests failed as a whole; nobody knows which of them is to blame.

    The replica holds nothing of them any more. Each is run again, as a suspect.
    """

    request_ids: list[str]
    message: str


class StageReleased(Message, tag="stage_released"):
    """The replica holds nothing of these requests any more; on the data lane, behind all of it."""

    request_ids: list[str]


class TrialAsk(Message, tag="trial_ask"):
    """A suspect could be stepped; the replica waits for ``TrialGrant``."""

    request_id: str


class TrialEnd(Message, tag="trial_end"):
    """A suspect was stepped, or is gone, and the replica lives."""

    request_id: str


class MetricSample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value of a metric, under its full name (``..._total``, ``..._bucket``)."""

    name: str
    labels: dict[str, str]
    value: float


class MetricFamily(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A metric as Prometheus has it: counter, gauge, histogram, and so on."""

    name: str
    kind: str
    documentation: str
    samples: list[MetricSample]


class Pong(Message, tag="pong"):
    """Answer to ``Ping``; ``num_requests`` is how many requests the replica holds.

    ``metrics`` are those of the engine that the replica runs, if it has its own; now and then.
    """

    seq: int
    num_requests: int
    metrics: list[MetricFamily] | None = None


def output_size(is_audio: bool, payload: Payload | None, num_samples: int) -> int:
    """What an output uses of its stage's credit: samples of audio, or else one."""
    if payload is None:
        return 0
    return num_samples if is_audio else 1


ToReplica: TypeAlias = (
    StageRequest
    | StageUpdate
    | StageInteraction
    | StageAbort
    | StagePause
    | StageResume
    | StageCredit
    | TrialGrant
    | Ping
    | Stop
)
FromReplica: TypeAlias = (
    Hello
    | ReplicaFailed
    | StageOutput
    | StageError
    | StepFailed
    | StageReleased
    | TrialAsk
    | TrialEnd
    | Pong
)
