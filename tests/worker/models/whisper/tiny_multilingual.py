"""A multilingual Whisper that knows nothing: random weights, the real format and vocabulary size.

It writes nonsense, but it chooses languages, takes the task and is decoded as a real one is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import WhisperSpec
from faster_whisper.tokenizer import _LANGUAGE_CODES
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

_WIDTH, _NUM_MELS = 16, 80
# Whisper's own: text tokens, encoder frames of 30 s, tokens of a text, timestamps of 20 ms.
_NUM_TEXT_TOKENS, _NUM_FRAMES, _MAX_TOKENS, _NUM_TIMES = 50_257, 1500, 448, 1501


def write_model(folder: Path) -> str:
    """Write the model into ``folder``; its path as ``weights`` takes it."""
    tokenizer, vocabulary, language_ids = _tokens()
    tokenizer.save(str(folder / "tokenizer.json"))
    spec = WhisperSpec(1, 2, 1, 2)
    _fill(spec, len(vocabulary))
    spec.register_vocabulary(vocabulary)
    spec.config.lang_ids = language_ids
    spec.config.alignment_heads = [(0, 0), (0, 1)]
    spec.config.suppress_ids = spec.config.suppress_ids_begin = []
    spec.validate()
    spec.save(str(folder))
    return str(folder)


def _tokens() -> tuple[Any, list[str], list[int]]:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    # The empty token is in the multilingual vocabulary only, by which CTranslate2 knows it.
    text = [*letters, *(f"filler{i}" for i in range(_NUM_TEXT_TOKENS - len(letters) - 1)), ""]
    languages = [f"<|{code}|>" for code in _LANGUAGE_CODES]
    tasks = ["translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps"]
    special = ["<|endoftext|>", "<|startoftranscript|>", *languages, *(f"<|{t}|>" for t in tasks)]
    times = [f"<|{i * 0.02:.2f}|>" for i in range(_NUM_TIMES)]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(text)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in special])
    tokenizer.add_tokens([AddedToken(token) for token in times])
    vocabulary = [*text, *special, *times]
    return tokenizer, vocabulary, [vocabulary.index(language) for language in languages]


def _fill(spec: Any, num_tokens: int) -> None:
    random = np.random.default_rng(1)

    def weights(*shape: int) -> Any:
        return (0.2 * random.standard_normal(shape)).astype(np.float32)

    def dense(layer: Any, num_outputs: int, *inputs: int) -> None:
        layer.weight, layer.bias = weights(num_outputs, *inputs), weights(num_outputs)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(_WIDTH, np.float32), np.zeros(_WIDTH, np.float32)

    def attention(layer: Any, *num_outputs: int) -> None:
        norm(layer.layer_norm)
        for linear, number in zip(layer.linear, num_outputs, strict=True):
            dense(linear, number, _WIDTH)

    def block(layer: Any) -> None:
        attention(layer.self_attention, 3 * _WIDTH, _WIDTH)
        norm(layer.ffn.layer_norm)
        dense(layer.ffn.linear_0, _WIDTH, _WIDTH)
        dense(layer.ffn.linear_1, _WIDTH, _WIDTH)

    encoder, decoder = spec.encoder, spec.decoder
    dense(encoder.conv1, _WIDTH, _NUM_MELS, 3)
    dense(encoder.conv2, _WIDTH, _WIDTH, 3)
    encoder.position_encodings.encodings = weights(_NUM_FRAMES, _WIDTH)
    decoder.position_encodings.encodings = weights(_MAX_TOKENS, _WIDTH)
    decoder.embeddings.weight = weights(num_tokens, _WIDTH)
    decoder.projection.weight = decoder.embeddings.weight
    for part in (encoder, decoder):
        norm(part.layer_norm)
        block(part.layer[0])
    attention(decoder.layer[0].attention, _WIDTH, 2 * _WIDTH, _WIDTH)
