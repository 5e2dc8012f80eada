"""Prompts as token ids. What a client wrote never becomes a control token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from engine.errors import ConfigError, InvalidRequestError
from worker.models.lm_codec.codes import FrameLayout
from worker.models.lm_codec.description import (
    ChatMessage,
    Description,
    Piece,
    Token,
    VoiceSpec,
    all_pieces,
    description_path,
)
from worker.models.lm_codec.files import find_file

# Stands for a field while the chat template runs; private use characters, which no template has.
_MARK = "\ue000"
# The last number in a token's name.
_NUMBER = re.compile(r"\d+(?=\D*$)")


class ChatTemplate(Protocol):
    """What a tokenizer of transformers is needed for."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, tokenize: bool, continue_final_message: bool
    ) -> Any: ...


class PromptBuilder:
    """Builds prompts of one model, with its own tokenizer. Safe under threads."""

    def __init__(
        self,
        description: Description,
        tokenizer: Tokenizer,
        folder: Path,
        template: ChatTemplate | None = None,
    ) -> None:
        """``folder``: where the relative paths of references begin. Raises ``ConfigError``."""
        self._description = description
        self._control = tokenizer
        # A copy, so that no switch is turned while another thread encodes.
        self._plain = Tokenizer.from_str(tokenizer.to_str())
        self._plain.encode_special_tokens = True  # as ordinary text
        self._template = template
        self._added = frozenset(tokenizer.get_added_tokens_decoder())
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
    def load(cls, name_or_path: str, description: Description, model: str) -> PromptBuilder:
        """With the tokenizer of a hub id or a folder. Raises ``ConfigError``."""
        # transformers' own tokenizer takes ten seconds to load Orpheus's 28683 added tokens, and
        # is needed for chat templates alone.
        has_chat = any(piece.chat for piece in all_pieces(description))
        try:
            tokenizer = Tokenizer.from_file(str(find_file(model, "tokenizer.json")))
            template = AutoTokenizer.from_pretrained(model) if has_chat else None
        except Exception as error:  # the tokenizers package raises nothing more special
            reason = str(error).partition("\n")[0]
            raise ConfigError(f"cannot load the tokenizer of {model!r}: {reason}") from error
        return cls(description, tokenizer, description_path(name_or_path).parent, template)

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
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        for token in ids:
            if token in self._added:
                name = self._plain.id_to_token(token)
                raise InvalidRequestError(
                    f"input must not hold {name!r}, a control token of this model", param="input"
                )
        return ids

    def _chat(self, messages: Sequence[ChatMessage], fields: Mapping[str, str]) -> list[int]:
        assert self._template is not None, "load has seen that there is a chat"
        marks = {name: f"{_MARK}{name}{_MARK}" for name in fields}
        rendered = self._template.apply_chat_template(
            [{"role": m.role, "content": m.content.format_map(marks)} for m in messages],
            tokenize=False,
            continue_final_message=True,
        )
        ids: list[int] = []
        for number, part in enumerate(rendered.split(_MARK)):
            if number % 2:
                ids += self.encode(fields[part])
            else:
                ids += self._control.encode(part, add_special_tokens=False).ids
        return ids

    def _token_id(self, token: Token) -> int:
        if isinstance(token, str):
            known: int | None = self._control.token_to_id(token)
            if known is None:
                raise ConfigError(f"the tokenizer has no token {token!r}")
            return known
        size = self._control.get_vocab_size()
        if not 0 <= token < size:
            raise ConfigError(f"token {token} is outside of the tokenizer's {size}")
        return token

    def _check_names(self) -> None:
        """Codes must follow on each other: the last one of a slot has its number in its name."""
        for slot, start, size in zip(
            self._description.tokens.frame, self.layout.starts, self.layout.sizes, strict=True
        ):
            if not isinstance(slot.first, str):
                continue
            last = _NUMBER.sub(lambda found: str(int(found[0]) + size - 1), slot.first)  # noqa: B023
            if self._control.token_to_id(last) != start + size - 1:
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
