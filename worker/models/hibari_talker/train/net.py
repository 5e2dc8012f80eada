"""Qwen3 for training on a CPU: the same numbers as transformers' model, faster.

Several answers share the phonemes that they answer (see ``batches.py``); nothing is computed where
a mask would hide it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from worker.models.hibari_talker.tokens import AXES, MAX_LENGTH, VOCABULARY
from worker.models.hibari_talker.train.batches import Batch

EPSILON = 1e-6
ROPE_THETA = 10_000.0
INITIAL_SPREAD = 0.02


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of the model. The shipped one has 2.6 million weights: 5.3 MB in bfloat16."""

    num_layers: int = 4
    hidden_size: int = 256
    intermediate_size: int = 512
    num_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64

    def config(self) -> dict[str, Any]:
        """As config.json of Hugging Face's format has it."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": VOCABULARY,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "max_position_embeddings": MAX_LENGTH,
            "rms_norm_eps": EPSILON,
            "rope_theta": ROPE_THETA,
            "rope_parameters": {"rope_type": "default", "rope_theta": ROPE_THETA},
            "tie_word_embeddings": True,
            "attention_bias": False,
            "bos_token_id": None,
            "eos_token_id": None,
            "dtype": "bfloat16",
        }


def new_weights(shape: Shape, seed: int) -> dict[str, Tensor]:
    """Random float32 weights under the names of Hugging Face's format."""
    generator = torch.Generator().manual_seed(seed)
    hidden, head = shape.hidden_size, shape.head_dim
    sizes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, hidden)}
    for layer in range(shape.num_layers):
        sizes |= {
            f"model.layers.{layer}.{name}.weight": size
            for name, size in {
                "input_layernorm": (hidden,),
                "self_attn.q_proj": (shape.num_heads * head, hidden),
                "self_attn.k_proj": (shape.num_key_value_heads * head, hidden),
                "self_attn.v_proj": (shape.num_key_value_heads * head, hidden),
                "self_attn.q_norm": (head,),
                "self_attn.k_norm": (head,),
                "self_attn.o_proj": (hidden, shape.num_heads * head),
                "post_attention_layernorm": (hidden,),
                "mlp.gate_proj": (shape.intermediate_size, hidden),
                "mlp.up_proj": (shape.intermediate_size, hidden),
                "mlp.down_proj": (hidden, shape.intermediate_size),
            }.items()
        }
    sizes["model.norm.weight"] = (hidden,)
    return {
        name: torch.ones(size)
        if len(size) == 1
        else INITIAL_SPREAD * torch.randn(size, generator=generator)
        for name, size in sizes.items()
    }


def save_weights(weights: dict[str, Tensor], shape: Shape, folder: Path) -> None:
    """Write config.json and model.safetensors, in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    halves = {name: weight.detach().bfloat16().contiguous() for name, weight in weights.items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    config = json.dumps(shape.config(), indent=1) + "\n"
    (folder / "config.json").write_text(config, encoding="utf-8")


class _RmsNorm(torch.autograd.Function):
    """``x / rms(x) * weight`` over the last axis, in few passes over memory."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.rsqrt(length.square() / x.shape[-1] + EPSILON).to(x.dtype)
        normal = x * scale
        ctx.save_for_backward(normal, scale, weight)
        return normal * weight

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        normal, scale, weight = ctx.saved_tensors
        size = normal.shape[-1]
        product = grad * normal
        grad_weight = product.reshape(-1, size).sum(0)
        mean = (product @ weight).unsqueeze(-1) / size
        return torch.addcmul(grad * weight, normal, mean, value=-1).mul_(scale), grad_weight


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    result: Tensor = _RmsNorm.apply(x, weight)  # type: ignore[no-untyped-call]
    return result


class Net:
    """The model on batches. ``weights`` are leaves that collect gradients."""

    def __init__(self, weights: dict[str, Tensor], shape: Shape) -> None:
        self._weights = weights
        self._shape = shape

    def logits(self, batch: Batch) -> Tensor:
        """[B, K, L, vocabulary] what each answer's tokens may be."""
        x = functional.embedding(
            torch.from_numpy(batch.tokens), self._weights["model.embed_tokens.weight"]
        )
        rotation = self._rotation(batch)
        for layer in range(self._shape.num_layers):
            x = self._layer(x, layer, rotation, batch)
        num_answers = batch.targets.shape[1]
        tails = _unfold(x[:, batch.num_prefix :], 1, (num_answers, batch.num_tail))
        tails = _norm(tails[:, :, len(AXES) :].contiguous(), self._weights["model.norm.weight"])
        return functional.linear(tails, self._weights["model.embed_tokens.weight"])

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross entropy of the answers' tokens."""
        logits = self.logits(batch).float()
        return functional.cross_entropy(
            logits.flatten(0, 2), torch.from_numpy(batch.targets).flatten()
        )

    def _rotation(self, batch: Batch) -> tuple[Tensor, Tensor]:
        half = self._shape.head_dim // 2
        frequencies = ROPE_THETA ** (-np.arange(half) / half)
        angles = batch.positions()[:, None] * frequencies
        dtype = self._weights["model.norm.weight"].dtype
        cosine, sine = (torch.from_numpy(f(angles)).to(dtype) for f in (np.cos, np.sin))
        return cosine[:, None], sine[:, None]

    def _layer(
        self, x: Tensor, layer: int, rotation: tuple[Tensor, Tensor], batch: Batch
    ) -> Tensor:
        def weight(name: str) -> Tensor:
            return self._weights[f"model.layers.{layer}.{name}.weight"]

        shape = self._shape
        together = torch.cat([weight(f"self_attn.{name}_proj") for name in "qkv"])
        heads = functional.linear(_norm(x, weight("input_layernorm")), together)
        heads = _unfold(heads, 2, (-1, shape.head_dim))
        q, k, v = torch.split(
            heads, [shape.num_heads, shape.num_key_value_heads, shape.num_key_value_heads], dim=2
        )
        q = _rotate(_norm(q, weight("self_attn.q_norm") / math.sqrt(shape.head_dim)), *rotation)
        k = _rotate(_norm(k, weight("self_attn.k_norm")), *rotation)
        x = x + functional.linear(_attend(q, k, v, batch), weight("self_attn.o_proj"))
        both = torch.cat([weight("mlp.gate_proj"), weight("mlp.up_proj")])
        gate, up = functional.linear(_norm(x, weight("post_attention_layernorm")), both).chunk(
            2, -1
        )
        return x + functional.linear(functional.silu(gate) * up, weight("mlp.down_proj"))


def _rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    early, late = x.chunk(2, -1)
    return torch.cat([early * cosine - late * sine, late * cosine + early * sine], -1)


def _attend(q: Tensor, k: Tensor, v: Tensor, batch: Batch) -> Tensor:
    """[B, T, heads * D] attention of the phonemes, and of the answers to them and themselves."""
    num_rows, prefix, tail = q.shape[0], batch.num_prefix, batch.num_tail
    num_answers = batch.targets.shape[1]
    phonemes = _attention(q[:, :prefix], k[:, :prefix], v[:, :prefix])

    def by_answer(x: Tensor) -> Tensor:
        return _unfold(x[:, prefix:], 1, (num_answers, tail)).flatten(0, 1)

    def with_phonemes(x: Tensor) -> Tensor:
        shared = x[:, None, :prefix].expand(-1, num_answers, -1, -1, -1).flatten(0, 1)
        return torch.cat([shared, by_answer(x)], 1)

    answers = _attention(by_answer(q), with_phonemes(k), with_phonemes(v))
    answers = _unfold(answers, 0, (num_rows, num_answers)).flatten(1, 2)
    return torch.cat([phonemes, answers], 1)


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """[N, T, heads * D] causal attention of the last T of S tokens.

    Contiguous products of matrices, the heads of a key in one: torch's fused attention takes three
    times as long backwards at these sizes.

    Args:
        q: [N, T, heads, D], scaled.
        k, v: [N, S, key heads, D].
    """
    num_tokens, num_keys = q.shape[1], k.shape[1]
    queries = _unfold(q, 2, (k.shape[2], -1)).permute(0, 2, 3, 1, 4).flatten(2, 3).contiguous()
    keys, values = (each.transpose(1, 2).contiguous() for each in (k, v))
    hidden = torch.full((num_tokens, num_keys), -math.inf, dtype=q.dtype)
    hidden.triu_(num_keys - num_tokens + 1)
    scores = queries @ keys.mT + hidden.repeat(q.shape[2] // k.shape[2], 1)
    seen = scores.softmax(-1) @ values
    return _unfold(seen, 2, (-1, num_tokens)).permute(0, 3, 1, 2, 4).flatten(2)


def _unfold(x: Tensor, dim: int, sizes: tuple[int, int]) -> Tensor:
    """``x`` with dimension ``dim`` as two; torch leaves its own ``unflatten`` untyped."""
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])
