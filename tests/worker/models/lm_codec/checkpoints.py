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
