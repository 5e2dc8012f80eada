"""What a chat answer looks like: whole, and in pieces as the chat API streams them.

Clients put pieces together by joining strings and adding numbers: an id, an expiry and a role are
said once, and each piece of audio is a multiple of six bytes, so that neither base64 nor a sample
is cut.
"""

from __future__ import annotations

import base64
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from server.sessions.realtime.response import INPUT_TOKEN_MS, OUTPUT_TOKEN_MS

# Three bytes are four characters of base64, two a sample.
_BLOCK_BYTES = 6


@dataclass(slots=True)
class Spending:
    """What all choices of a request took. Audio is counted by its length."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    heard_ms: float = 0.0
    spoken_ms: float = 0.0

    def add(self, usage: dict[str, int]) -> None:
        """A choice's usage. The prompt is the same for all of them and counts once."""
        self.prompt_tokens = max(self.prompt_tokens, usage.get("prompt_tokens", 0))
        self.cached_tokens = max(self.cached_tokens, usage.get("cached_tokens", 0))
        self.completion_tokens += usage.get("completion_tokens", 0)
        self.reasoning_tokens += usage.get("reasoning_tokens", 0)

    def to_json(self) -> dict[str, Any]:
        heard = round(self.heard_ms / INPUT_TOKEN_MS)
        spoken = round(self.spoken_ms / OUTPUT_TOKEN_MS)
        num_prompt, num_completion = self.prompt_tokens + heard, self.completion_tokens + spoken
        return {
            "prompt_tokens": num_prompt,
            "completion_tokens": num_completion,
            "total_tokens": num_prompt + num_completion,
            "prompt_tokens_details": {
                "audio_tokens": heard,
                "text_tokens": self.prompt_tokens,
                "cached_tokens": self.cached_tokens,
                "image_tokens": 0,
            },
            "completion_tokens_details": {
                "audio_tokens": spoken,
                "text_tokens": self.completion_tokens,
                "reasoning_tokens": self.reasoning_tokens,
                "accepted_prediction_tokens": 0,
                "rejected_prediction_tokens": 0,
            },
        }


class Completion:
    """One request's identity in everything that is sent about it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._id = f"chatcmpl-{secrets.token_hex(12)}"
        self._created = int(time.time())

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
        return self._base("chat.completion") | {"choices": choices, "usage": usage}

    def chunk(
        self, index: int, delta: dict[str, Any], finish_reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "finish_reason": finish_reason}
        return self._base("chat.completion.chunk") | {"choices": [choice | {"logprobs": None}]}

    def expiry(self, index: int, expires_at: int) -> dict[str, Any]:
        """The last piece of audio; it has no finish reason, not even null."""
        choice = {"index": index, "delta": {"audio": {"expires_at": expires_at}}}
        return self._base("chat.completion.chunk") | {"choices": [choice]}

    def spent(self, usage: dict[str, Any]) -> dict[str, Any]:
        return self._base("chat.completion.chunk") | {"choices": [], "usage": usage}

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}


class AudioBlocks:
    """Audio in pieces that can be coded in base64 one by one."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, data: bytes | memoryview) -> str:
        """Base64 of all whole blocks so far; may be empty."""
        joined = self._rest + bytes(data)
        size = len(joined) // _BLOCK_BYTES * _BLOCK_BYTES
        self._rest = joined[size:]
        return base64.b64encode(joined[:size]).decode("ascii")

    def finish(self) -> str:
        """Base64 of what is left."""
        rest, self._rest = self._rest, b""
        return base64.b64encode(rest).decode("ascii")


@dataclass(slots=True)
class Choice:
    """One answer as it grows."""

    index: int
    audio_id: str | None = None
    text: str = ""
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish_reason: str = "stop"
    audio: list[bytes] = field(default_factory=list)
    has_begun: bool = False
    has_audio: bool = False

    def add_call(self, index: int, call_id: str, name: str, arguments: str) -> dict[str, Any]:
        """More of a tool call; the delta that tells of it."""
        call = self.calls.get(index)
        if call is not None:
            call["function"]["arguments"] += arguments
            return {"index": index, "function": {"arguments": arguments}}
        self.calls[index] = {
            "id": call_id or f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        return {"index": index} | _copy(self.calls[index])

    def to_json(self, expires_at: int | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text, "refusal": None}
        if self.audio_id is not None and self.text:
            message["content"] = None
            message["audio"] = {
                "id": self.audio_id,
                "data": base64.b64encode(b"".join(self.audio)).decode("ascii"),
                "expires_at": expires_at,
                "transcript": self.text,
            }
        if self.calls:
            message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
            message["content"] = message["content"] or None
        return {
            "index": self.index,
            "message": message,
            "finish_reason": self.finish_reason,
            "logprobs": None,
        }


def _copy(call: dict[str, Any]) -> dict[str, Any]:
    return call | {"function": dict(call["function"])}
