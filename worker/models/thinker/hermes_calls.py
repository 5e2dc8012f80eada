"""Tool calls inside a model's text, as Qwen and Hermes models write them.

<tool_call>
{"name": "add", "arguments": {"a": 2}}
</tool_call>
"""

from __future__ import annotations

import json
from typing import Any

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class HermesCalls:
    """Takes the calls out of a text that comes in pieces.

    A call is told when it is whole. One that is no JSON object with a name stays in the text, and
    so does one that is never closed: the client sees what the model wrote.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_open = False
        self.num_calls = 0

    @property
    def is_open(self) -> bool:
        """In the middle of a call."""
        return self._is_open

    def feed(self, text: str) -> tuple[str, list[dict[str, Any]]]:
        """What is text after all, and the calls that are whole now."""
        self._held += text
        told: list[str] = []
        calls: list[dict[str, Any]] = []
        while self._advance(told, calls):
            pass
        return "".join(told), calls

    def finish(self) -> str:
        """The text has ended; what was held back of it."""
        rest, self._held = self._held, ""
        return OPEN + rest if self._is_open else rest

    def _advance(self, told: list[str], calls: list[dict[str, Any]]) -> bool:
        tag = CLOSE if self._is_open else OPEN
        before, found, behind = self._held.partition(tag)
        if not found:
            if not self._is_open:
                kept = _num_held(self._held)
                told.append(self._held[: len(self._held) - kept])
                self._held = self._held[len(self._held) - kept :]
            return False
        if self._is_open:
            call = self._read(before)
            if call is None:
                told.append(OPEN + before + CLOSE)
            else:
                calls.append(call)
        else:
            told.append(before)
        self._held, self._is_open = behind, not self._is_open
        return True

    def _read(self, text: str) -> dict[str, Any] | None:
        try:
            call = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", {})
        self.num_calls += 1
        return {
            "index": self.num_calls - 1,
            "id": "",
            "name": call["name"],
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        }


def _num_held(text: str) -> int:
    """Characters at the end that may be the beginning of a call."""
    for size in range(min(len(OPEN) - 1, len(text)), 0, -1):
        if OPEN.startswith(text[-size:]):
            return size
    return 0
