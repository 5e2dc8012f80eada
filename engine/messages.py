"""Everything that crosses a thread or process boundary, as one closed tagged union.

``engine.wire`` is their form between processes.

Two lanes join the orchestrator and a replica. The *data* lane carries ``StageRequest``,
``StageUpdate`` and outputs; the *control* lane carries what must not wait behind them. Messages of
one lane keep their order. A control message may overtake data on the way: its ``after_seq`` says
how many data messages had been sent to that replica before it, and the replica takes them first.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

Prompt: TypeAlias = dict[str, Any]
Payload: TypeAlias = dict[str, Any]

PROTOCOL_VERSION = 1


class SamplingParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one stage samples. ``None`` leaves the stage's own default.

    A stage that cannot use a field refuses it by name; ``extra`` holds stage-specific fields.
    """

    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    guidance_scale: float | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class CompanionSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A CFG companion, fully built before its parent is queued."""

    request_id: str
    role: str
    prompt: Prompt
    sampling_params_list: list[SamplingParams]


class _Message(msgspec.Struct, tag_field="msg", forbid_unknown_fields=True):
    """Base of all messages; ``msg`` on the wire is the tag."""


# --- caller → orchestrator (same process) --------------------------------------------------------


class StageSubmissionMessage(_Message, tag="stage_submission"):
    """A new request, or one more segment of a resumable one.

    Times are seconds: ``request_timestamp`` and ``enqueue_ts`` on the wall clock, ``deadline`` on
    the engine's clock (monotonic). ``resumable`` false on an update closes the request.
    """

    type: Literal["add_request", "streaming_update"]
    request_id: str
    prompt: Prompt
    original_prompt: Prompt
    sampling_params_list: list[SamplingParams]
    final_stage_id: int
    final_output_stage_ids: list[int]
    output_prompt_text: str | None = None
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


class InteractionMessage(_Message, tag="interaction"):
    """A control message to a running request; ``event_id`` is repeated by its answer.

    ``interrupt`` drops what has not been sent, ``flush`` speaks what is buffered although no
    sentence end has come, ``pause`` and ``resume`` hold the sound, ``update`` changes the voice
    from the next segment on.
    """

    request_id: str
    event_id: str
    kind: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class ConsumedMessage(_Message, tag="consumed"):
    """How much of the request's output the caller has taken so far, by ``output_cost``."""

    request_id: str
    cost: int


class AbortMessage(_Message, tag="abort"):
    """Let go of these requests in every stage; ``abort_id`` is repeated by the answer."""

    request_ids: list[str]
    abort_id: int


class ScaleMessage(_Message, tag="scale"):
    """Set the number of replicas of a stage."""

    stage_id: int
    num_replicas: int


class DrainMessage(_Message, tag="drain"):
    """Start nothing new; ``deadline`` (engine clock) ends what is still running then."""

    deadline: float


class ShutdownMessage(_Message, tag="shutdown"):
    """Stop every replica and end the orchestrator."""


# --- orchestrator → replica ----------------------------------------------------------------------


class StageRequest(_Message, tag="stage_request"):
    """A request for one stage.

    Stage 0 finds its first input in the prompt; a later stage gets all inputs as ``StageUpdate``.
    Inputs are numbered, the prompt of stage 0 being number 0. Outputs have a position: samples for
    audio, else the number of output units before it.

    The last fields are set when a request is replayed: inputs before ``first_unit`` are done with
    (``prompt`` then only says how to speak) and made ``start_position`` of output; of what the
    others make, nothing before ``skip_position`` is emitted. Speech begins anew at
    ``cut_position``: at 0, and where an interrupt cut it. A ``suspect`` was running when its last
    replica died: it is stepped alone, in a trial, until it is past what it had done. The
    ``group_size`` requests of one
    ``group_id`` are stepped together or not at all.

    For a language model the passages before ``first_passage`` were made of inputs that are done
    with, those before ``open_passage`` have ended, and ``prefix_tokens`` are what it had of that
    one.
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
    paused: bool = False
    suspect: bool = False
    first_passage: int = 0
    open_passage: int = 0
    prefix_tokens: list[int] = msgspec.field(default_factory=list)


class StageUpdate(_Message, tag="stage_update"):
    """One more input of a request: a text segment for stage 0, a unit of the stage before it else.

    ``final`` says that no further input follows; ``payload`` may then be empty.
    """

    request_id: str
    unit: int
    payload: Payload
    final: bool = False


class StageInteraction(_Message, tag="stage_interaction"):
    """A flush or an update of the voice, numbered among the request's inputs."""

    request_id: str
    unit: int
    kind: str
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)


class StageAbort(_Message, tag="stage_abort"):
    """Let go of these requests; answered by one ``StageReleased``."""

    request_ids: list[str]
    after_seq: int = 0


class StagePause(_Message, tag="stage_pause"):
    """Do not schedule this request until ``StageResume``."""

    request_id: str
    after_seq: int = 0


class StageResume(_Message, tag="stage_resume"):
    """Schedule this request again."""

    request_id: str
    after_seq: int = 0


class TrialGrant(_Message, tag="trial_grant"):
    """Answer to ``TrialAsk``: the orchestrator knows whom to blame if the replica dies now."""

    request_id: str


class Ping(_Message, tag="ping"):
    """Heartbeat, answered at once by ``Pong`` with the same ``seq``."""

    seq: int


class Stop(_Message, tag="stop"):
    """End the replica's process."""


# --- replica → orchestrator ----------------------------------------------------------------------


class Fingerprint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What decides the bytes: only replicas with equal fingerprints promise the same ones."""

    model_sha256: str
    instruction_set: str
    libraries: dict[str, str]
    num_threads: int


class Hello(_Message, tag="hello"):
    """The replica is loaded and ready."""

    replica_id: str
    stage_id: int
    pid: int
    fingerprint: Fingerprint
    protocol_version: int = PROTOCOL_VERSION


class ReplicaFailed(_Message, tag="replica_failed"):
    """The replica cannot go on; ``message`` is one sentence for the operator."""

    replica_id: str
    message: str


class OutputRow(msgspec.Struct, forbid_unknown_fields=True):
    """What one step did for one request.

    ``payload`` is absent when the step routed nothing to the request. ``start_sample`` and
    ``num_samples`` place the payload in the request's output, where a unit that is not audio counts
    as one sample; a row without payload tells its position all the same. The request can be
    replayed from input ``units_done``, whose output starts at ``done_position``.

    A language model's position counts tokens. ``tokens`` are those that the row covers, to be given
    back in a replay; ``ends_passage`` says that its passage ended with them.
    """

    request_id: str
    payload: Payload | None = None
    start_sample: int = 0
    num_samples: int = 0
    units_done: int = 0
    done_position: int = 0
    finished: bool = False
    tokens: list[int] = msgspec.field(default_factory=list)
    ends_passage: bool = False


class StageOutput(_Message, tag="stage_output"):
    """All outputs of one step. ``num_batch_rows`` counts the batch, ``rows`` what left it."""

    rows: list[OutputRow]
    num_batch_rows: int
    num_routed_rows: int
    step_ms: float


class StageError(_Message, tag="stage_error"):
    """One request failed in this stage, at input ``unit`` if that is known; the replica goes on."""

    request_id: str
    code: str
    message: str
    param: str | None = None
    unit: int | None = None


class StageReleased(_Message, tag="stage_released"):
    """The replica holds nothing of these requests any more; on the data lane, behind all of it."""

    request_ids: list[str]


class TrialAsk(_Message, tag="trial_ask"):
    """A suspect could be stepped; the replica waits for ``TrialGrant``."""

    request_id: str


class TrialEnd(_Message, tag="trial_end"):
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


class Pong(_Message, tag="pong"):
    """Answer to ``Ping``; ``num_requests`` is how many requests the replica holds.

    ``metrics`` are those of the engine that the replica runs, if it has its own; now and then.
    """

    seq: int
    num_requests: int
    metrics: list[MetricFamily] | None = None


# --- orchestrator → caller (same process) --------------------------------------------------------


class OutputMessage(_Message, tag="output"):
    """A piece of output of a request; ``finished`` marks its last message."""

    request_id: str
    stage_id: int
    payload: Payload | None = None
    start_sample: int = 0
    num_samples: int = 0
    finished: bool = False
    queue_wait_ms: float = 0.0


class ErrorMessage(_Message, tag="error"):
    """The terminal message of a request that failed, or (``fatal`` false) of one interaction."""

    request_id: str
    code: str
    message: str
    param: str | None = None
    fatal: bool = True
    event_id: str | None = None


class AckMessage(_Message, tag="ack"):
    """An interaction was carried out."""

    request_id: str
    event_id: str
    kind: str
    result: dict[str, Any] = msgspec.field(default_factory=dict)


class AbortedMessage(_Message, tag="aborted"):
    """Every stage has let go of the requests of this abort."""

    abort_id: int


def output_cost(message: OutputMessage, sample_rate: int) -> int:
    """What an output counts for backpressure: its samples; half a second if it is not audio.

    A unit of text or features stands for at least a word, and holds some kilobytes at most.
    """
    if message.payload is None:
        return 0
    return message.num_samples if "audio" in message.payload else sample_rate // 2


ToOrchestrator: TypeAlias = (
    StageSubmissionMessage
    | InteractionMessage
    | ConsumedMessage
    | AbortMessage
    | ScaleMessage
    | DrainMessage
    | ShutdownMessage
)
ToReplica: TypeAlias = (
    StageRequest
    | StageUpdate
    | StageInteraction
    | StageAbort
    | StagePause
    | StageResume
    | TrialGrant
    | Ping
    | Stop
)
FromReplica: TypeAlias = (
    Hello | ReplicaFailed | StageOutput | StageError | StageReleased | TrialAsk | TrialEnd | Pong
)
ToCaller: TypeAlias = OutputMessage | ErrorMessage | AckMessage
