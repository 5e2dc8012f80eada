"""Pipelines: what a YAML file says about the stages, and the functions that it names.

A pipeline file is strict: an unknown key is an error that lists the known ones. Functions and
models are named by dotted path (``package.module:name``) and loaded only where they run: the
prompt functions and the voice list in the caller's process, the stage model in its worker.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from engine.errors import ConfigError
from engine.messages import Prompt, SamplingParams
from engine.strict import convert, load_yaml

PIPELINE_DIR = Path(__file__).parent / "pipelines"

StageType: TypeAlias = Literal["llm", "generation"]
OutputType: TypeAlias = Literal["audio", "latent", "text"]
PlacementKind: TypeAlias = Literal["local", "ray", "remote"]
InputType: TypeAlias = Literal["text", "audio"]
BalancePolicy: TypeAlias = Literal["least_loaded", "round_robin", "random"]


class Voice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A voice as clients see it. ``language`` is a BCP 47 tag."""

    id: str
    name: str
    language: str
    gender: Literal["female", "male", "neutral"]
    description: str
    aliases: tuple[str, ...] = ()
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class PromptExpansion(msgspec.Struct, frozen=True):
    """One CFG companion that a ``prompt_expand_func`` asks for."""

    prompt: Prompt
    role: str
    request_id_suffix: str
    sampling_overrides: dict[str, Any] = msgspec.field(default_factory=dict)


PromptTransform: TypeAlias = Callable[[Prompt], Prompt]
PromptExpand: TypeAlias = Callable[[Prompt, SamplingParams], Sequence[PromptExpansion]]


class LoraModule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A LoRA that requests may name. ``path`` is a folder or a hub id."""

    name: str
    path: str


class LlmConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What vLLM runs in a stage with ``stage_type: llm``, and how. Names as in vLLM.

    ``checkpoint`` is a folder, a hub id, or ``package.module:folder`` for one that lies beside a
    Python package. Without ``tokenizer`` vLLM gets none: prompts and outputs are token ids (an
    adapter may still load one by itself). ``max_num_seqs`` counts rows: a guided passage takes two.
    ``kv_cache_memory_mb`` is the size of the KV cache; without it ``gpu_memory_utilization`` says
    it on a GPU. ``num_kv_blocks`` overrides both. ``stream_interval`` is how many tokens leave
    together after a passage's first one. ``num_threads`` are those of a CPU. ``tell_states``: the
    adapter gets each position's embedding and hidden state, from a model class that tells them
    (``worker.vllm.state_teller``).
    """

    checkpoint: str
    revision: str | None = None
    tokenizer: str | None = None
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    quantization: str | None = None
    max_model_len: int | None = None
    max_num_seqs: int = 64
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    kv_cache_memory_mb: int | None = 512
    num_kv_blocks: int | None = None
    gpu_memory_utilization: float = 0.9
    tensor_parallel_size: int = 1
    enforce_eager: bool = True
    enable_prefix_caching: bool = True
    stream_interval: int = 1
    trust_remote_code: bool = False
    num_threads: int = 1
    loras: tuple[LoraModule, ...] = ()
    max_lora_rank: int = 16
    hf_overrides: dict[str, Any] = msgspec.field(default_factory=dict)
    tell_states: bool = False

    def __post_init__(self) -> None:
        for key in _POSITIVE_LLM_KEYS:
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"llm: {key} must be at least 1")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError("llm: gpu_memory_utilization must be above 0 and at most 1")
        names = [lora.name for lora in self.loras]
        if len(set(names)) != len(names):
            raise ValueError(f"llm: loras must have different names, got {', '.join(names)}")


_POSITIVE_LLM_KEYS = (
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "kv_cache_memory_mb",
    "num_kv_blocks",
    "tensor_parallel_size",
    "stream_interval",
    "num_threads",
    "max_lora_rank",
)


class StageConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One stage of a pipeline.

    ``model`` is the function that loads the stage model; with ``stage_type: llm`` it loads the
    adapter (``worker.vllm.adapter``) around the language model that ``llm`` describes.
    ``max_pending_units`` bounds how many units of the stage before may wait here per request.
    ``cpus`` pins replica i to ``cpus[i % len(cpus)]``, ``gpus`` likewise, where the placement is
    local; a replica on Ray asks it for ``num_cpus``, ``num_gpus``. A replica that is not up after
    ``start_timeout_s``, or has a step that takes ``step_timeout_s``, is replaced. A request whose
    replica is lost fails if there is none for ``replica_deadline_s``.
    """

    name: str
    model: str
    stage_type: StageType = "generation"
    engine_output_type: OutputType = "latent"
    num_replicas: int = 1
    placement: PlacementKind = "local"
    balance: BalancePolicy = "least_loaded"
    max_batch_size: int = 4
    steps_in_flight: int = 1
    max_pending_units: int = 4
    forward_companions: bool = False
    start_timeout_s: float = 120.0
    replica_deadline_s: float = 30.0
    step_timeout_s: float = 120.0
    cpus: tuple[tuple[int, ...], ...] = ()
    gpus: tuple[tuple[int, ...], ...] = ()
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    default_sampling: SamplingParams = SamplingParams()
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    llm: LlmConfig | None = None

    def __post_init__(self) -> None:
        self._check_type()
        for key in ("num_replicas", "max_batch_size", "steps_in_flight", "max_pending_units"):
            if getattr(self, key) < 1:
                raise ValueError(f"stage {self.name!r}: {key} must be at least 1")
        for key in ("start_timeout_s", "replica_deadline_s", "step_timeout_s"):
            if not getattr(self, key) > 0:
                raise ValueError(f"stage {self.name!r}: {key} must be above 0")
        if self.placement != "local" and (self.cpus or self.gpus):
            raise ValueError(
                f"stage {self.name!r}: cpus and gpus pin local replicas, not {self.placement} ones"
            )
        if self.placement != "ray" and (self.num_cpus, self.num_gpus) != (1.0, 0.0):
            raise ValueError(f"stage {self.name!r}: num_cpus and num_gpus are for placement: ray")
        if self.num_cpus < 0 or self.num_gpus < 0:
            raise ValueError(f"stage {self.name!r}: num_cpus and num_gpus must be at least 0")
        if self.name.startswith("join:"):
            raise ValueError(f"stage {self.name!r}: a name must not begin with 'join:'")

    def _check_type(self) -> None:
        if (self.llm is not None) != (self.stage_type == "llm"):
            raise ValueError(f"stage {self.name!r}: llm goes with stage_type: llm, and it with llm")
        if self.stage_type == "llm" and self.engine_output_type == "audio":
            raise ValueError(
                f"stage {self.name!r}: a language model gives latent or text, not audio"
            )


class PipelineConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pipeline: its stages in order, and the functions of its model family.

    ``voices_func`` returns the voices (``Voice``), first the default one. ``models`` are the model
    names under which clients ask for this pipeline, first its own. ``requires`` are import packages
    that it cannot run without, and ``extra`` the extra of voxloom's that installs them. Segments of
    a resumable request hold what ``input_type`` says. Its functions get ``options`` as keyword
    arguments: so one family's functions serve many models.
    """

    name: str
    description: str
    stages: tuple[StageConfig, ...]
    sample_rate: int = 24000
    input_type: InputType = "text"
    models: tuple[str, ...] = ()
    extra: str | None = None
    requires: tuple[str, ...] = ()
    voices_func: str | None = None
    prompt_transform_func: str | None = None
    prompt_expand_func: str | None = None
    options: dict[str, Any] = msgspec.field(default_factory=dict)
    group_deadline_s: float = 30.0

    def __post_init__(self) -> None:
        if not self.stages:
            raise ValueError("stages must hold at least one stage")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError(f"stages must have different names, got {', '.join(names)}")
        if not 8000 <= self.sample_rate <= 192_000:
            raise ValueError("sample_rate must be between 8000 and 192000")

    @property
    def final_stage_id(self) -> int:
        return len(self.stages) - 1


def list_pipelines() -> list[str]:
    """Names of the pipelines that ship with the server."""
    return sorted(path.stem for path in PIPELINE_DIR.glob("*.yaml"))


def pipeline_path(name_or_path: str) -> Path:
    """The file of a shipped pipeline's name, or of a path to a YAML file."""
    if name_or_path.endswith((".yaml", ".yml")):
        return Path(name_or_path)
    if name_or_path in list_pipelines():
        return PIPELINE_DIR / f"{name_or_path}.yaml"
    known = ", ".join(list_pipelines())
    raise ConfigError(f"unknown pipeline {name_or_path!r}; known: {known}, or a path to a .yaml")


def load_pipeline(name_or_path: str) -> PipelineConfig:
    """The pipeline of that name or file. Raises ``ConfigError``."""
    path = pipeline_path(name_or_path)
    return convert(load_yaml(path), PipelineConfig, str(path.name))


def missing_packages(pipeline: PipelineConfig) -> list[str]:
    """Which of the packages that the pipeline requires are not installed. Imports none of them."""
    return [name for name in pipeline.requires if importlib.util.find_spec(name) is None]


def check_installed(pipeline: PipelineConfig) -> None:
    """Raise ``ConfigError`` that says how to install what is missing."""
    missing = missing_packages(pipeline)
    if missing:
        hint = f": pip install 'voxloom[{pipeline.extra}]'" if pipeline.extra else ""
        raise ConfigError(f"pipeline {pipeline.name!r} needs {', '.join(missing)}{hint}")


def load_object(dotted: str, key: str) -> Any:
    """What ``package.module:name`` stands for. ``key`` is the configuration key that named it."""
    module_name, separator, attribute = dotted.partition(":")
    if not separator:
        raise ConfigError(f"{key}: {dotted!r} is not of the form package.module:name")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{key}: cannot load {dotted!r}: {error}") from error


def load_function(pipeline: PipelineConfig, key: str) -> Callable[..., Any] | None:
    """The function that the pipeline names under ``key``, given its options; None without one."""
    dotted = getattr(pipeline, key)
    if dotted is None:
        return None
    function = load_object(dotted, key)
    try:
        inspect.signature(function).bind_partial(**pipeline.options)
    except TypeError as error:
        raise ConfigError(f"options: {error}, in {dotted}") from error
    return partial(function, **pipeline.options)


def load_voices(pipeline: PipelineConfig) -> tuple[Voice, ...]:
    """The voices of a pipeline; a pipeline without a voice list has none."""
    voices_func = load_function(pipeline, "voices_func")
    return () if voices_func is None else tuple(voices_func())
