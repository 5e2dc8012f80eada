"""A tiny Qwen3 with random float32 weights, and plain loops over it, as the reference."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

VOCAB = 128
MAX_LEN = 128
# Argmax among logits that are closer than this is decided by rounding; see the callers.
MIN_GAP = 1e-3


def write_tiny_model(folder: Path) -> Path:
    """A checkpoint in Hugging Face's format; the same bytes each time."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(11)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        initializer_range=0.3,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
        torch_dtype="float32",
    )
    model = Qwen3ForCausalLM(config).float().eval()
    model.save_pretrained(folder)
    return folder


def write_sliding_model(folder: Path) -> Path:
    """Gemma 3 with random float32 weights: two layers of three look back 32 tokens only.

    vLLM keeps their cache in other groups of blocks than the third one's.
    """
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(12)
    config = Gemma3TextConfig(
        vocab_size=VOCAB,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        sliding_window=32,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        query_pre_attn_scalar=32,
        initializer_range=0.3,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=None,
        dtype="float32",
    )
    Gemma3ForCausalLM(config).float().eval().save_pretrained(folder)
    return folder


@functools.cache
def load_reference(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def prompt_of(number: int, length: int) -> list[int]:
    """Token ids that depend on the number and not on where it is used."""
    return [
        (7 * number + 13 * i + i * i * (number % 5 + 1)) % (VOCAB - 1) + 1 for i in range(length)
    ]


@torch.inference_mode()
def all_logits(model: Any, prompt: Sequence[int], tokens: Sequence[int]) -> torch.Tensor:
    """float32 [len(tokens), vocabulary]: row i is what token i was chosen from."""
    ids = torch.tensor([[*prompt, *tokens[:-1]]])
    logits: torch.Tensor = model(ids).logits[0, len(prompt) - 1 :].float()
    return logits


def find_mismatches(
    model: Any,
    guided: Sequence[int],
    free: Sequence[int] | None,
    scale: float,
    tokens: Sequence[int],
) -> list[int]:
    """Where ``tokens`` are not those of the greedy loop of two passes, ``u + scale * (c - u)``.

    The loop is fed the tokens under test, so that one rounding does not decide all that follows.
    Where the two best logits are closer than ``MIN_GAP`` either may be taken.
    """
    logits = all_logits(model, guided, tokens)
    if free is not None:
        u = all_logits(model, free, tokens)
        logits = u + scale * (logits - u)
    best = torch.topk(logits, 2, dim=-1)
    is_clear = best.values[:, 0] - best.values[:, 1] > MIN_GAP
    is_other = best.indices[:, 0] != torch.tensor(list(tokens))
    return [int(i) for i in (is_other & is_clear).nonzero()]
