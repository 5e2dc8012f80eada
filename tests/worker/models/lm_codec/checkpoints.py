"""Language models with random weights, small, in the format in which real ones are published.

Vocabularies have their real layout: the control tokens that a description names are where they are
in the published model, and texts are bytes.
"""

from __future__ import annotations

import atexit
import functools
import tempfile
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

# Llama 3: 128000 ordinary tokens, 256 control tokens. Orpheus and its kin add theirs behind them.
_NUM_LLAMA_TOKENS = 128_000
_LLAMA_CONTROL = {0: "<|begin_of_text|>", 1: "<|end_of_text|>", 9: "<|eot_id|>"} | {
    6: "<|start_header_id|>",
    7: "<|end_header_id|>",
}
_NUM_CUSTOM_TOKENS = 28_683
# As that of Llama 3.2, without its dates.
_LLAMA_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}"
    "<|end_header_id|>\n\n{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
)
NUM_SPEECH_CODES = 64

_FOLDER = tempfile.TemporaryDirectory(prefix="voxloom-checkpoints-")
atexit.register(_FOLDER.cleanup)


@functools.cache
def orpheus_tokenizer() -> Path:
    control = [_LLAMA_CONTROL.get(i, f"<|reserved_special_token_{i}|>") for i in range(256)]
    custom = [f"<custom_token_{i}>" for i in range(_NUM_CUSTOM_TOKENS)]
    return _save("orpheus", _NUM_LLAMA_TOKENS, control + custom, bos="<|begin_of_text|>")


@functools.cache
def llasa_tokenizer() -> Path:
    """With fewer codes than the real one, which has 65536."""
    control = [_LLAMA_CONTROL.get(i, f"<|reserved_special_token_{i}|>") for i in range(256)]
    added = [
        "<|TEXT_UNDERSTANDING_START|>",
        "<|TEXT_UNDERSTANDING_END|>",
        "<|SPEECH_GENERATION_START|>",
        "<|SPEECH_GENERATION_END|>",
        *(f"<|s_{i}|>" for i in range(NUM_SPEECH_CODES)),
    ]
    return _save(
        "llasa", 1000, control + added, bos="<|begin_of_text|>", chat_template=_LLAMA_TEMPLATE
    )


@functools.cache
def outetts_tokenizer() -> Path:
    words = ["text_start", "text_end", "audio_start", "audio_end", "word_start", "word_end", "code"]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|{word}|>" for word in words)]
    codes = [f"<|c{book}_{i}|>" for book in (1, 2) for i in range(1025)]
    return _save("outetts", 300, control + codes, bos=None)


@functools.cache
def talking_orpheus() -> Path:
    """A checkpoint of Orpheus's kind whose greedy tokens are whole frames, and that stops.

    Weights are random but for this: each token knows its place in a frame and asks for the next
    place; a head that looks at all tokens alike sees which share of them is the prompt, and the
    stop token wins at a frame's end when that share is small. So speech is as long as its text.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=_NUM_LLAMA_TOKENS + 256 + _NUM_CUSTOM_TOKENS + 1,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,  # of 32: vLLM's attention on CPUs has no smaller ones
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        bos_token_id=128000,
        eos_token_id=None,
        dtype="float32",
    )
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        _teach(model, torch)
    model.save_pretrained(orpheus_tokenizer())
    return orpheus_tokenizer()


_STOP, _FIRST_CODE, _CODES = 128258, 128266, 4096
# Places in the hidden state: what a token is in the frame, whether it is of the prompt, the share
# of such tokens, and a constant. The rest is random.
_PROMPT, _SHARE, _ONE, _REST = 7, 8, 9, 10


def _teach(model: Any, torch: Any) -> None:
    embedding, head = model.model.embed_tokens.weight, model.lm_head.weight
    embedding[:, :_REST], embedding[:, _ONE], embedding[:, _PROMPT] = 0, 1, 1
    embedding[:, _REST:] = 0.5 * torch.randn(len(embedding), embedding.shape[1] - _REST)
    head.zero_()
    head[:, _ONE] = -100  # nothing is said but codes, and the stop
    embedding[:_FIRST_CODE, 6] = 1  # the prompt ends like a frame
    for slot in range(7):
        codes = slice(_FIRST_CODE + slot * _CODES, _FIRST_CODE + (slot + 1) * _CODES)
        embedding[codes, slot], embedding[codes, _PROMPT] = 1, 0
        head[codes, _ONE] = 0
        head[codes, (slot - 1) % 7] = 60
        head[codes, _REST:] = torch.randn(_CODES, head.shape[1] - _REST)
    # The norms double what they let through. The best code has about 140: at the end of a frame the
    # stop is above it when a fifth of all tokens are the prompt's.
    head[_STOP, 6], head[_STOP, _ONE], head[_STOP, _SHARE] = 100, 0, -69
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj"):
            getattr(layer.self_attn, name).weight.normal_(0, 0.3)
        for projection in (layer.self_attn.v_proj, layer.self_attn.o_proj, layer.mlp.down_proj):
            projection.weight.normal_(0, 0.1)
            projection.weight[:_REST] = 0
    first = model.model.layers[0].self_attn
    head_size = first.head_dim
    for name in ("q_proj", "k_proj"):
        getattr(first, name).weight[:head_size] = 0  # one head looks everywhere alike
    first.v_proj.weight[0], first.o_proj.weight[:, 0] = 0, 0
    first.v_proj.weight[0, _PROMPT] = 1
    first.o_proj.weight[_SHARE, 0] = 1


def _save(
    name: str, num_ordinary: int, control: list[str], *, bos: str | None, **options: Any
) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {char: number for number, char in enumerate(alphabet)}
    vocab |= {f"[unused {i}]": i for i in range(len(alphabet), num_ordinary)}
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in control])
    if bos is not None:
        number = tokenizer.token_to_id(bos)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, number)]
        )
    folder = Path(_FOLDER.name) / name
    saved = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=bos, **options)
    saved.save_pretrained(folder)
    return folder
