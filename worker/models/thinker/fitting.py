"""Prompts that fit a model whose tokens are known: whole, or truncated where that may be.

What each message takes is counted by its own text and what the template puts around one; which
messages go is decided by that (``worker.models.thinker.truncation``). The prompt itself is then
counted as it is, and more goes if it must. All of it depends on the question alone: a replay gets
the same prompt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from engine.errors import ContextLengthError, InvalidRequestError
from worker.models.thinker.question import Question
from worker.models.thinker.tool_choice import Tooling
from worker.models.thinker.truncation import Message, num_user_messages, outline
from worker.vllm.sampling import TokenSampling

# For a template that refuses to be measured: more than any known one puts around a message.
_MOST_AROUND = 16
# The tokens at both ends of a sound.
_AROUND_SOUND = 2
_WORD = "a"
_ASKED: Message = {"role": "user", "content": _WORD}
_ANSWERED: Message = {"role": "assistant", "content": _WORD}
_ANY_SAMPLING = TokenSampling(max_tokens=1)


class Renderer(Protocol):
    """A chat template and a tokenizer."""

    def render(self, question: Question) -> tuple[list[int], str]: ...

    def num_tokens(self, text: str) -> int: ...


@dataclass(frozen=True, slots=True)
class Fitted:
    """A prompt. ``ids`` hold one token for each sound, ``begun`` is what of the answer is in them.

    ``sounds`` are the numbers of the sounds in it. ``num_left_out`` of the user's messages, the
    oldest ones, are not.
    """

    ids: list[int]
    begun: str
    sounds: list[int]
    num_left_out: int


class Fitting:
    """For one model, of which ``max_model_len`` bounds a prompt and its answer together."""

    def __init__(self, renderer: Renderer, max_model_len: int) -> None:
        self._renderer = renderer
        self._max_model_len = max_model_len
        self._around: int | None = None

    def fit(self, question: Question, sounds: Sequence[int] = ()) -> Fitted:
        """The prompt of a question. ``sounds``: how many tokens each is, in the messages' order.

        Where messages may go, room is left for the answer: what it may take, or half of the
        model's length. Raises ``ContextLengthError`` for what the model cannot read.
        """
        truncation = question.truncation
        if truncation is None:
            return self._checked(self._without(question, sounds, set()), sounds)
        outlined = outline(question.messages)
        room = self._max_model_len - min(question.sampling.max_tokens, self._max_model_len // 2)
        costs = self._costs(question.messages, sounds)
        limit = truncation.limit(room - self._head(question, outlined.num_leading))
        num = outlined.num_dropped(costs, limit, truncation.retention_ratio)
        while True:
            fitted = self._without(question, sounds, outlined.dropped(num))
            excess = _length(fitted, sounds) - room
            if excess <= 0 or num == len(outlined.groups):
                return self._checked(fitted, sounds)
            num = outlined.more(num, costs, excess)

    def _checked(self, fitted: Fitted, sounds: Sequence[int]) -> Fitted:
        length, longest = _length(fitted, sounds), self._max_model_len - 1
        if length > longest:
            left = ", without all that may be left out" if fitted.num_left_out else ""
            raise ContextLengthError(
                f"messages make a prompt of {length} tokens{left}; the model reads at most "
                f"{longest}",
                param="messages",
            )
        return fitted

    def _without(self, question: Question, sounds: Sequence[int], dropped: set[int]) -> Fitted:
        messages = [m for index, m in enumerate(question.messages) if index not in dropped]
        ids, begun = self._renderer.render(replace(question, messages=messages))
        places = _sounds_of(question.messages)
        gone = {number for index in dropped for number in places[index]}
        left = [number for number in range(len(sounds)) if number not in gone]
        return Fitted(ids, begun, left, num_user_messages(question.messages, dropped))

    # --- what messages take ----------------------------------------------------------------------

    def _costs(self, messages: Sequence[Message], sounds: Sequence[int]) -> list[int]:
        places = _sounds_of(messages)
        costs = []
        for message, heard in zip(messages, places, strict=True):
            texts = _texts(message)
            cost = sum(map(self._renderer.num_tokens, texts)) + len(texts) * self._num_around()
            costs.append(cost + sum(sounds[number] + _AROUND_SOUND for number in heard))
        return costs

    def _head(self, question: Question, num_leading: int) -> int:
        """The tokens of the instructions and the tools, and of what the answer begins with."""
        messages = [*question.messages[:num_leading], _ASKED]
        ids, _ = self._renderer.render(replace(question, messages=messages, form=None))
        return len(ids) - self._renderer.num_tokens(_WORD) - self._num_around()

    def _num_around(self) -> int:
        """How many tokens a template puts around a message."""
        if self._around is None:
            self._around = self._measure()
        return self._around

    def _measure(self) -> int:
        try:
            one, three = self._num_rendered(_ASKED), self._num_rendered(_ASKED, _ANSWERED, _ASKED)
        except InvalidRequestError:
            return _MOST_AROUND
        return max(0, -(-(three - one) // 2) - self._renderer.num_tokens(_WORD))

    def _num_rendered(self, *messages: Message) -> int:
        question = Question(list(messages), Tooling(), _ANY_SAMPLING)
        return len(self._renderer.render(question)[0])


def _length(fitted: Fitted, sounds: Sequence[int]) -> int:
    return len(fitted.ids) + sum(sounds[number] - 1 for number in fitted.sounds)


def _sounds_of(messages: Sequence[Message]) -> list[list[int]]:
    """For each message the numbers of its sounds."""
    places: list[list[int]] = []
    num_sounds = 0
    for message in messages:
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        num_own = sum(part.get("type") == "audio" for part in parts)
        places.append(list(range(num_sounds, num_sounds + num_own)))
        num_sounds += num_own
    return places


def _texts(message: Message) -> list[str]:
    """What is written in a message, its calls included; at least one text."""
    content: Any = message.get("content") or ""
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content)
    calls = [json.dumps(call.get("function")) for call in message.get("tool_calls") or ()]
    return [content, *calls]
