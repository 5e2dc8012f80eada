"""Language models with random weights, small, in the format in which real ones are published.

Vocabularies have their real layout: the control tokens that a description names are where they are
in the published model, and texts are bytes.
"""

from __future__ import annotations

import atexit
import functools
import tempfile
from dataclasses import dataclass
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
    """A checkpoint of Orpheus's kind whose greedy tokens are whole frames, and that stops."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = _NUM_LLAMA_TOKENS + 256 + _NUM_CUSTOM_TOKENS + 1
    cycle = [range(128266 + slot * 4096, 128266 + (slot + 1) * 4096) for slot in range(7)]
    speaker = _Speaker(cycle, stop=128258, share=0.2, seed=5)
    config = LlamaConfig(vocab_size=size, **_SMALL)
    return speaker.save(LlamaForCausalLM, config, orpheus_tokenizer())


@functools.cache
def talking_llasa() -> Path:
    """As the one above, with Llasa's one token per frame."""
    from transformers import LlamaConfig, LlamaForCausalLM

    names = _added_tokens(llasa_tokenizer())
    first = names["<|s_0|>"]
    cycle = [range(first, first + NUM_SPEECH_CODES)]
    speaker = _Speaker(cycle, stop=names["<|SPEECH_GENERATION_END|>"], share=0.6, seed=3)
    config = LlamaConfig(vocab_size=len(names) + 1000, **_SMALL)
    return speaker.save(LlamaForCausalLM, config, llasa_tokenizer())


@functools.cache
def talking_outetts() -> Path:
    """As the ones above, with OuteTTS's two tokens per frame, and one that is no code between."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    names = _added_tokens(outetts_tokenizer())
    cycle = [range(names["<|code|>"], names["<|code|>"] + 1)]
    cycle += [range(names[f"<|c{book}_0|>"], names[f"<|c{book}_0|>"] + 64) for book in (1, 2)]
    speaker = _Speaker(cycle, stop=names["<|audio_end|>"], share=0.08, seed=7)
    config = Qwen3Config(vocab_size=len(names) + 300, head_dim=32, **_SMALL)
    return speaker.save(Qwen3ForCausalLM, config, outetts_tokenizer())


_SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,  # of 32: vLLM's attention on CPUs has no smaller ones
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "dtype": "float32",
}
# What a text can hold to make its speech end early, go on for ever, or say what is no code.
ENDS_EARLY, NEVER_ENDS, SAYS_NONSENSE = "#", "@", "%"
# Places in the hidden state: what a token is in the frame, whether it is of the prompt, the share
# of such tokens, a constant, and each mark and its share. The rest is random.
_PROMPT, _SHARE, _ONE, _MARKS, _REST = 7, 8, 9, 10, 16


@dataclass(frozen=True, slots=True)
class _Speaker:
    """Weights with which a model speaks as long as its prompt is long.

    They are random but for this: each token knows its place in the cycle and asks for the next one;
    a head that looks at all tokens alike sees which share of them is the prompt, and the stop token
    wins at a cycle's end when that is below ``share``. Marks among the prompt outweigh all that.
    """

    cycle: list[range]
    stop: int
    share: float
    seed: int

    def save(self, model_class: Any, config: Any, folder: Path) -> Path:
        """Beside the tokenizer that is in the folder."""
        import torch

        torch.manual_seed(self.seed)
        model = model_class(config).float().eval()
        marks = [_number_of(folder, mark) for mark in (ENDS_EARLY, NEVER_ENDS, SAYS_NONSENSE)]
        with torch.no_grad():
            self._teach_embedding(model.model.embed_tokens.weight, marks, torch)
            self._teach_head(model.lm_head.weight, torch)
            _teach_attention(model)
        model.save_pretrained(folder)
        return folder

    def _teach_embedding(self, embedding: Any, marks: list[int], torch: Any) -> None:
        last = len(self.cycle) - 1
        embedding[:, :_REST], embedding[:, _ONE], embedding[:, _PROMPT] = 0, 1, 1
        embedding[:, _REST:] = 0.5 * torch.randn(len(embedding), embedding.shape[1] - _REST)
        embedding[:, last] = 1  # the prompt ends like a frame
        embedding[marks, [_MARKS, _MARKS + 1, _MARKS + 2]] = 1
        for slot, tokens in enumerate(self.cycle):
            codes = slice(tokens.start, tokens.stop)
            embedding[codes, last], embedding[codes, _PROMPT] = 0, 0
            embedding[codes, slot] = 1

    def _teach_head(self, head: Any, torch: Any) -> None:
        last = len(self.cycle) - 1
        head.zero_()
        head[:, _ONE] = -100  # nothing is said but the cycle, and the stop
        for slot, tokens in enumerate(self.cycle):
            codes = slice(tokens.start, tokens.stop)
            head[codes, _ONE] = 0
            head[codes, slot - 1 if slot else last] = 60
            head[codes, _REST:] = torch.randn(len(tokens), head.shape[1] - _REST)
        # The norms double what they let through. The best code has about 140: at the end of a frame
        # the stop is above it when the share of the prompt's tokens is small.
        head[self.stop, last], head[self.stop, _ONE] = 100, 0
        head[self.stop, _SHARE] = -14 / self.share
        head[self.stop, _MARKS + 3], head[self.stop, _MARKS + 4] = 10_000, -10_000
        head[self.cycle[0].start - 2, _MARKS + 5] = 10_000


def _teach_attention(model: Any) -> None:
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj"):
            getattr(layer.self_attn, name).weight.normal_(0, 0.3)
        for projection in (layer.self_attn.v_proj, layer.self_attn.o_proj, layer.mlp.down_proj):
            projection.weight.normal_(0, 0.1)
            projection.weight[:_REST] = 0
    first = model.model.layers[0].self_attn
    for name in ("q_proj", "k_proj"):
        getattr(first, name).weight[: first.head_dim] = 0  # one head looks everywhere alike
    sources = [_PROMPT, _MARKS, _MARKS + 1, _MARKS + 2]
    targets = [_SHARE, _MARKS + 3, _MARKS + 4, _MARKS + 5]
    for value, (source, target) in enumerate(zip(sources, targets, strict=True)):
        first.v_proj.weight[value], first.o_proj.weight[:, value] = 0, 0
        first.v_proj.weight[value, source], first.o_proj.weight[target, value] = 1, 1


def _added_tokens(folder: Path) -> dict[str, int]:
    """The tokens behind the ordinary ones, by name."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return {token.content: i for i, token in tokenizer.get_added_tokens_decoder().items()}


def _number_of(folder: Path, text: str) -> int:
    """The one ordinary token that a character is."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    (number,) = tokenizer.encode(text, add_special_tokens=False).ids
    return int(number)


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
