"""A chat model with random weights in Hugging Face's format, tokenizer and template too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

TEMPLATE = (
    "{% for tool in tools or [] %}tool {{ tool.function.name }}\n{% endfor %}"
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def write_tiny_chat(folder: Path, letters: str = "") -> Path:
    """The same bytes each time. With ``letters`` it says these more often than all others."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(5)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=not letters,
        initializer_range=0.3,
        eos_token_id=tokenizer.eos_token_id,
        torch_dtype="float32",
    )
    model = Qwen3ForCausalLM(config).float().eval()
    if letters:
        said = torch.tensor(tokenizer.encode(letters, add_special_tokens=False))
        with torch.no_grad():
            # The logits of all others are 0, and one of these mostly above it.
            rows = model.lm_head.weight[said].clone()
            model.lm_head.weight.zero_()
            model.lm_head.weight[said] = rows
    model.save_pretrained(folder)
    return folder


def tiny_tokenizer() -> Any:
    """A token for each byte, and one for the end."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: index for index, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = TEMPLATE
    return fast


def generate(folder: Path, messages: list[dict[str, Any]], num_tokens: int) -> list[int]:
    """The greedy answer of transformers."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=False
    )
    with torch.inference_mode():
        output = model.generate(ids, max_new_tokens=num_tokens, do_sample=False)
    return [int(token) for token in output[0, ids.shape[1] :]]
