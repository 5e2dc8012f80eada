"""Prompts as token ids. What a client wrote never becomes a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer

from engine.errors import ConfigError, InvalidRequestError
from worker.models.lm_codec.codes import FrameLayout
from worker.models.lm_codec.description import (
    ChatMessage,
    Description,
    Piece,
    Token,
    VoiceSpec,
    description_path,
)

# Stands for a field while the chat template runs; private use characters, which no template has.
_MARK = "\ue000"
# The last number in a token's name.
_NUMBER = re.compile(r"\d+(?=\D*$)")


class PromptBuilder:
    """Builds prompts of one model, with its own tokenizer. Safe under threads."""

    def __init__(self, description: Description, tokenizer: Any, folder: Path) -> None:
        """``folder``: where the relative paths of references begin. Raises ``ConfigError``."""
        self._description = description
        self._tokenizer = tokenizer
        self._added = frozenset(tokenizer.get_added_vocab().values())
        starts = [self._token_id(slot.first) for slot in description.tokens.frame]
        self.layout = FrameLayout.of(description, starts)
        self._check_names()
        self.stop_token_ids = tuple(self._token_id(token) for token in description.tokens.stop)
        self._references = {
            voice.id: self._read_reference(folder / voice.reference.codes)
            for voice in description.voices
            if voice.reference is not None
        }

    @classmethod
    def load(cls, name_or_path: str, description: Description, tokenizer: str) -> PromptBuilder:
        """With the tokenizer of a hub id or a path. Raises ``ConfigError``."""
        try:
            loaded = AutoTokenizer.from_pretrained(tokenizer)
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"cannot load the tokenizer of {tokenizer!r}: {reason}") from error
        return cls(description, loaded, description_path(name_or_path).parent)

    def build(
        self, pieces: Sequence[Piece], voice: VoiceSpec, fields: Mapping[str, str]
    ) -> list[int]:
        """The token ids of a prompt. Raises ``InvalidRequestError``, see ``encode``."""
        ids: list[int] = []
        for piece in pieces:
            if piece.text is not None:
                ids += self.encode(piece.text.format_map(fields))
            elif piece.reference:
                ids += self._references[voice.id]
            elif piece.chat:
                ids += self._chat(piece.chat, fields)
            else:
                ids += [self._token_id(token) for token in piece.tokens]
        return ids

    def encode(self, text: str) -> list[int]:
        """Ordinary tokens of a text. Raises ``InvalidRequestError`` if it holds a control token."""
        ids: list[int] = self._tokenizer.encode(
            text, add_special_tokens=False, split_special_tokens=True
        )
        for token in ids:
            if token in self._added:
                name = self._tokenizer.convert_ids_to_tokens(token)
                raise InvalidRequestError(
                    f"input must not hold {name!r}, a control token of this model", param="input"
                )
        return ids

    def _chat(self, messages: Sequence[ChatMessage], fields: Mapping[str, str]) -> list[int]:
        marks = {name: f"{_MARK}{name}{_MARK}" for name in fields}
        rendered = self._tokenizer.apply_chat_template(
            [{"role": m.role, "content": m.content.format_map(marks)} for m in messages],
            tokenize=False,
            continue_final_message=True,
        )
        ids: list[int] = []
        for number, part in enumerate(rendered.split(_MARK)):
            if number % 2:
                ids += self.encode(fields[part])
            else:
                ids += self._tokenizer.encode(part, add_special_tokens=False)
        return ids

    def _token_id(self, token: Token) -> int:
        if isinstance(token, str):
            known = self._tokenizer.get_vocab().get(token)
            if known is None:
                raise ConfigError(f"the tokenizer has no token {token!r}")
            return int(known)
        if not 0 <= token < len(self._tokenizer):
            raise ConfigError(f"token {token} is outside of the tokenizer's {len(self._tokenizer)}")
        return token

    def _check_names(self) -> None:
        """Codes must follow on each other: the last one of a slot has its number in its name."""
        for slot, start, size in zip(
            self._description.tokens.frame, self.layout.starts, self.layout.sizes, strict=True
        ):
            if not isinstance(slot.first, str):
                continue
            last = _NUMBER.sub(lambda found: str(int(found[0]) + size - 1), slot.first)  # noqa: B023
            if self._tokenizer.get_vocab().get(last) != start + size - 1:
                raise ConfigError(f"token {last!r} does not follow on {slot.first!r} by {size - 1}")

    def _read_reference(self, path: Path) -> list[int]:
        """The tokens of a recording: its frames in the order of ``tokens.frame``."""
        sizes = np.array(self.layout.sizes)
        try:
            frames = np.array(json.loads(path.read_text(encoding="utf-8")), np.int64)
            frames = frames.reshape(len(frames), len(sizes))
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read the reference codes {path}: {error}") from error
        if (frames < 0).any() or (frames >= sizes).any():
            raise ConfigError(f"{path}: codes must be from 0 to {(sizes - 1).tolist()}")
        return [int(token) for token in (frames + np.array(self.layout.starts)).ravel()]
