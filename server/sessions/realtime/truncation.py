"""What a session's prompts may leave out where the conversation is more than its model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from server.sessions.realtime.checks import Check, bad_value, fields, number, one_of, optional

AUTO, DISABLED, RATIO = "auto", "disabled", "retention_ratio"
# More than any model reads.
_MAX_TOKENS = 100_000_000
_LIMITS: dict[str, Check] = {"post_instructions": optional(number(0, _MAX_TOKENS, whole=True))}
_FIELDS: dict[str, Check] = {
    "type": one_of(RATIO),
    "retention_ratio": number(0.0, 1.0),
    "token_limits": optional(fields(_LIMITS)),
}


@dataclass(frozen=True, slots=True)
class Truncation:
    """The oldest messages may go, until that share of the room for them is left.

    ``post_instructions``: the most tokens behind the instructions; None: what the model reads.
    """

    retention_ratio: float = 1.0
    post_instructions: int | None = None


def check_truncation(value: Any, path: str) -> Any:
    """``truncation`` of a session, as it is shown. Null is the default."""
    if value is None:
        return AUTO
    if isinstance(value, dict):
        return fields(_FIELDS, ("type", "retention_ratio"))(value, path)
    if value not in (AUTO, DISABLED):
        raise bad_value(path, f'"{AUTO}", "{DISABLED}" or an object of the type "{RATIO}"', value)
    return value


def read_truncation(shown: Any) -> Truncation | None:
    """What it means; None: nothing goes, and an answer that has no room fails."""
    if shown == DISABLED:
        return None
    if shown == AUTO:
        return Truncation()
    limits = shown.get("token_limits") or {}
    return Truncation(shown["retention_ratio"], limits.get("post_instructions"))
