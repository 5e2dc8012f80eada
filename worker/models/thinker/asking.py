"""One answer of a model elsewhere, whose tokens nobody here can count: asked again with fewer of
the messages where it refuses them all for their length.

Tokens are guessed from bytes. Which messages go is decided as for a model here
(``worker.models.thinker.truncation``), against limits that fall from try to try: what the model
says that it reads, less a share for its answer, or else a half of what it refused.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from worker.models.thinker.endpoint import Endpoint, RefusedLengthError, Thought
from worker.models.thinker.truncation import (
    Message,
    Outline,
    Truncation,
    num_user_messages,
    outline,
    read_truncation,
)

# English has about four bytes a token, Chinese three.
_BYTES_PER_TOKEN = 4
# Around a message, and for an image (OpenAI's vision guide has 85 to 1105).
_MESSAGE_TOKENS, _IMAGE_TOKENS = 4, 800
# Shares of what the model reads: the guess may be wrong, and the answer needs room.
_KNOWN_SHARES = (0.75, 0.5, 0.35, 0.25)
_UNKNOWN_SHARES = (0.5, 0.25, 0.12, 0.06)


async def ask(endpoint: Endpoint, prompt: dict[str, Any]) -> AsyncGenerator[Thought, None]:
    """The answer to a prompt, as it is written. Raises ``VoxloomError``.

    Where messages may be left out the endpoint is asked six times at most.
    """
    truncation = read_truncation(prompt.get("truncation"))
    tries = None if truncation is None else _Tries(prompt, truncation)
    dropped = set[int]() if tries is None else tries.first()
    while True:
        try:
            async with aclosing(_answer(endpoint, prompt, dropped)) as thoughts:
                async for thought in thoughts:
                    yield thought
            return
        except RefusedLengthError as error:
            fewer = None if tries is None else tries.after(error)
            if fewer is None:
                raise
            dropped = fewer


async def _answer(
    endpoint: Endpoint, prompt: dict[str, Any], dropped: set[int]
) -> AsyncGenerator[Thought, None]:
    messages = [m for i, m in enumerate(prompt["messages"]) if i not in dropped]
    num_left_out = num_user_messages(prompt["messages"], dropped)
    async with aclosing(endpoint.think(prompt | {"messages": messages})) as thoughts:
        async for thought in thoughts:
            if thought.usage is not None:
                usage = thought.usage | {"left_out_messages": num_left_out}
                thought = replace(thought, usage=usage)
            yield thought


class _Tries:
    """Which messages go at each try: more each time, at last all that may."""

    def __init__(self, prompt: dict[str, Any], truncation: Truncation) -> None:
        self._truncation = truncation
        self._outline: Outline = outline(prompt["messages"])
        self._costs = [_guess(message) for message in prompt["messages"]]
        instructions = sum(self._costs[: self._outline.num_leading])
        self._head = instructions + _num_tokens(prompt.get("tooling", {}))
        self._num = 0
        self._limits: Iterator[int] | None = None

    def first(self) -> set[int]:
        """What the policy alone leaves out."""
        self._num = self._under(self._truncation.limit(sum(self._costs)))
        return self._outline.dropped(self._num)

    def after(self, refusal: RefusedLengthError) -> set[int] | None:
        """None: there is nothing left to leave out."""
        num_groups = len(self._outline.groups)
        if self._num == num_groups:
            return None
        if self._limits is None:
            self._limits = self._falling(refusal.limit)
        fewer = (num for num in map(self._under, self._limits) if num > self._num)
        self._num = next(fewer, num_groups)
        return self._outline.dropped(self._num)

    def _falling(self, told: int | None) -> Iterator[int]:
        if told is not None:
            return (int(told * share) - self._head for share in _KNOWN_SHARES)
        asked = sum(self._costs[self._outline.num_leading :])
        return (int(asked * share) for share in _UNKNOWN_SHARES)

    def _under(self, num_tokens: int) -> int:
        limit = self._truncation.limit(num_tokens)
        return self._outline.num_dropped(self._costs, limit, self._truncation.retention_ratio)


def _guess(message: Message) -> int:
    content = message.get("content") or ""
    texts = content if isinstance(content, list) else [{"text": content}]
    num_images = len([part for part in texts if part.get("type") == "image_url"])
    written = [part.get("text", "") for part in texts]
    calls = message.get("tool_calls") or []
    return _num_tokens([*written, *calls]) + _MESSAGE_TOKENS + num_images * _IMAGE_TOKENS


def _num_tokens(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode(errors="replace")) // _BYTES_PER_TOKEN
