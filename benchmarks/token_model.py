"""A language model as small as a talker's, with random weights, and a stage that runs it bare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.messages import Payload, StageInteraction, StageRequest, StageUpdate
from engine.pipeline import LlmConfig, PipelineConfig, StageConfig
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Passage, Row
from worker.vllm.sampling import TokenSampling

VOCAB = 1024
NUM_PROMPT_TOKENS = 100
SCALE = 2.0


def write_model(folder: Path) -> None:
    """Qwen3, 4 layers of 256, 2.6 million weights in bfloat16."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=None,
        bos_token_id=None,
    )
    Qwen3ForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def prompt_tokens(number: int, *, free: bool) -> list[int]:
    """Token ids; those of the guided row and of the free one share no beginning."""
    first = 2 * number + free
    return [(first * 31 + i * 17) % (VOCAB - 1) + 1 for i in range(NUM_PROMPT_TOKENS)]


def llm_config(folder: Path) -> LlmConfig:
    return LlmConfig(
        checkpoint=str(folder),
        dtype="bfloat16",
        max_model_len=256,
        max_num_seqs=64,
        max_num_batched_tokens=NUM_PROMPT_TOKENS * 64 + 64,
        block_size=32,
        kv_cache_memory_mb=256,
        enable_prefix_caching=False,
    )


def one_stage(folder: Path) -> PipelineConfig:
    stage = StageConfig(
        name="tokens",
        model="benchmarks.token_model:load",
        stage_type="llm",
        engine_output_type="text",
        start_timeout_s=600.0,
        llm=llm_config(folder),
    )
    return PipelineConfig(
        name="tokens",
        description="tokens of a language model",
        stages=(stage,),
        models=("tokens",),
    )


class _Tokens:
    def feed(self, burst: Burst) -> Payload:
        return {"tokens": list(burst.token_ids)}


class _OnePassage:
    """``{"number": n, "num_tokens": m, "guided": bool}``: both rows of a guided one are made here.

    A request that ends in stage 0 has no companions in the engine.
    """

    def __init__(self, request: StageRequest) -> None:
        number, guided = request.prompt["number"], request.prompt["guided"]
        rows = [Row(None, prompt_tokens(number, free=False))]
        if guided:
            rows.append(Row("free", prompt_tokens(number, free=True)))
        num_tokens = request.prompt["num_tokens"]
        self._passage: Passage | None = Passage(
            number=request.first_passage,
            rows=tuple(rows),
            sampling=TokenSampling(max_tokens=num_tokens, temperature=0.0, ignore_eos=True),
            sink=_Tokens(),
            guidance_scale=SCALE,
        )

    def update(self, update: StageUpdate) -> None:
        raise ValueError("the prompt is all there is")

    def interact(self, interaction: StageInteraction) -> None:
        raise ValueError("the prompt is all there is")

    def take(self) -> Passage | None:
        passage, self._passage = self._passage, None
        return passage

    def closing(self) -> None:
        """Nothing follows the last passage."""

    @property
    def is_empty(self) -> bool:
        return self._passage is None


class TokenAdapter:
    def open(self, request: StageRequest, _companions: Mapping[str, StageRequest]) -> _OnePassage:
        return _OnePassage(request)

    def model_files(self) -> Sequence[Path]:
        return []


def load(_context: StageContext) -> TokenAdapter:
    return TokenAdapter()
