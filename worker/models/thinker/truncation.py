"""Which messages a prompt goes without, where not all of a conversation fits.

    never goes           instructions (the system messages at the start), other system messages
                         unless the same is said again later, the newest message of the user, and
                         what came last behind it
    goes first           exchanges, the oldest first: a message of the user and all up to the next
    goes after these     steps of the newest turn, the oldest first: an answer, or calls and results

So a call goes with its result, and what is left begins with a message of the user.

What goes is decided by going through the conversation as it came, message by message: when it is
over its limit, exchanges go until a share of the limit is left. Another message at the end changes
nothing of what was decided before it, so a prompt begins like the one before it (and vLLM finds it
in its prefix cache) until the limit is reached again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from engine.errors import InvalidRequestError

Message = dict[str, Any]
_INSTRUCTING = ("system", "developer")


class Truncation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a prompt may be truncated. Fields as OpenAI's realtime sessions have them.

    ``retention_ratio``: the share of the limit that is left. ``post_instructions``: the most
    tokens behind the instructions and tools; None: as many as the model reads.
    """

    retention_ratio: float = 1.0
    post_instructions: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.retention_ratio <= 1:
            raise ValueError("retention_ratio must be from 0 to 1")
        if self.post_instructions is not None and self.post_instructions < 0:
            raise ValueError("post_instructions must be at least 0")

    def limit(self, num_tokens: int) -> int:
        """The most tokens behind the instructions, of ``num_tokens`` that there is room for."""
        allowed = num_tokens if self.post_instructions is None else self.post_instructions
        return max(0, min(num_tokens, allowed))


def read_truncation(given: Any) -> Truncation | None:
    """``truncation`` of a prompt; None: it goes whole, or not at all. Raises
    ``InvalidRequestError``.
    """
    try:
        return msgspec.convert(given, Truncation | None)
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"truncation: {error}", param="truncation") from error


@dataclass(frozen=True, slots=True)
class Outline:
    """What of a conversation goes together.

    ``num_leading`` messages are the instructions. ``groups`` are indices of messages, in the order
    in which they go. ``num_before``: for each message how many of the groups were over when it
    came.
    """

    num_leading: int
    groups: list[list[int]]
    num_before: list[int]

    def num_dropped(self, costs: Sequence[int], limit: int, ratio: float) -> int:
        """How many groups go, so that the others have ``limit`` tokens, if there are so many.

        ``costs`` are the tokens of each message, ``ratio`` the share of the limit that is left.
        """
        total = num = 0
        for index in range(self.num_leading, len(costs)):
            total += costs[index]
            if total > limit:
                while num < self.num_before[index] and total > ratio * limit:
                    total -= self._cost(num, costs)
                    num += 1
        return self.more(num, costs, total - limit)

    def more(self, num: int, costs: Sequence[int], excess: int) -> int:
        """``num`` groups, and as many more as have ``excess`` tokens, if there are so many."""
        while excess > 0 and num < len(self.groups):
            excess -= self._cost(num, costs)
            num += 1
        return num

    def dropped(self, num: int) -> set[int]:
        """The messages that go with so many groups."""
        return {index for group in self.groups[:num] for index in group}

    def _cost(self, group: int, costs: Sequence[int]) -> int:
        return sum(costs[index] for index in self.groups[group])


def outline(messages: Sequence[Message]) -> Outline:
    """The outline of a conversation: messages of the chat API."""
    roles = [message.get("role") for message in messages]
    is_kept = _kept(messages)
    num_leading = next((i for i, role in enumerate(roles) if role not in _INSTRUCTING), len(roles))
    newest = max((i for i, role in enumerate(roles) if role == "user"), default=num_leading - 1)
    groups: list[list[int]] = []
    num_before = [0] * len(roles)
    num_exchanges = 0
    for index in range(num_leading, len(roles)):
        opens = roles[index] == ("user" if index < newest else "assistant")
        if index == newest:
            num_exchanges = len(groups)
        elif not is_kept[index]:
            if opens or len(groups) == (num_exchanges if index > newest else 0):
                groups.append([])
            groups[-1].append(index)
        num_before[index] = max(0, len(groups) - 1) if index < newest else num_exchanges
    has_steps = len(groups) > num_exchanges and newest < len(roles) - 1
    return Outline(num_leading, groups[:-1] if has_steps else groups, num_before)


def num_user_messages(messages: Sequence[Message], indices: set[int]) -> int:
    """How many of these messages are the user's."""
    return sum(messages[index].get("role") == "user" for index in indices)


def _kept(messages: Sequence[Message]) -> list[bool]:
    """Of the system messages, those that are not said again later."""
    later: set[str] = set()
    kept = [False] * len(messages)
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") in _INSTRUCTING:
            said = repr(messages[index].get("content"))
            kept[index] = said not in later
            later.add(said)
    return kept
