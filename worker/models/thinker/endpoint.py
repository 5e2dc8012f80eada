"""A language model behind OpenAI's chat API: how it is asked, and what its answer becomes."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import openai
from openai import AsyncOpenAI

from engine.errors import (
    ConfigError,
    ContextLengthError,
    DeadlineExceededError,
    InvalidRequestError,
    StageFailedError,
    UnavailableError,
    VoxloomError,
)
from worker.models.thinker.context_limit import is_too_long, told_limit

_MAX_MESSAGE_CHARS = 300
# The endpoint's word for a request that no model would take.
_REFUSED_STATUSES = (400, 404, 409, 413, 422)
_KEY_STATUSES = (401, 403)


class EndpointOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``options`` of the stage.

    ``base_url`` and ``model`` may come from the environment (``base_url_env``, ``model_env``), the
    key always does: ``api_key_env`` names its variable. ``timeout_s`` bounds the wait for the next
    piece of an answer. ``max_retries`` counts tries after a first one that got no answer at all.
    ``opens_reasoning``: the model's chat template ends with ``<think>``, so that its answers begin
    inside their reasoning (DeepSeek-R1, Qwen3-Thinking) and only ``</think>`` is seen of it. A
    server that takes the reasoning out of the answer does not need it.
    """

    base_url: str | None = None
    model: str | None = None
    base_url_env: str = "VOXLOOM_THINKER_URL"
    model_env: str = "VOXLOOM_THINKER_MODEL"
    api_key_env: str = "OPENAI_API_KEY"
    timeout_s: float = 60.0
    max_retries: int = 1
    opens_reasoning: bool = False
    extra_body: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.timeout_s > 0:
            raise ValueError("timeout_s must be above 0")
        if self.max_retries < 0:
            raise ValueError("max_retries must be at least 0")


class RefusedLengthError(ContextLengthError):
    """The model does not read so much; ``limit`` is how many tokens it does, if it said so."""

    def __init__(self, message: str, limit: int | None = None) -> None:
        super().__init__(message, param="messages")
        self.limit = limit


@dataclass(slots=True)
class Thought:
    """A piece of an answer. ``calls`` hold ``index``, ``id``, ``name``, more of ``arguments``."""

    text: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, int] | None = None


class Endpoint:
    """One model at one address. Used on one event loop."""

    def __init__(self, options: EndpointOptions) -> None:
        self.base_url = options.base_url or os.environ.get(options.base_url_env, "")
        self.model = options.model or os.environ.get(options.model_env, "")
        if not self.base_url or not self.model:
            raise ConfigError(
                "the thinker needs the address and the name of a language model: set "
                f"{options.base_url_env} (such as http://127.0.0.1:11434/v1) and "
                f"{options.model_env}, or base_url and model among the stage's options"
            )
        self.opens_reasoning = options.opens_reasoning
        self._extra_body = options.extra_body
        self._client = AsyncOpenAI(
            base_url=self.base_url,
            # The client refuses to start without one; servers without keys ignore it.
            api_key=os.environ.get(options.api_key_env) or "none",
            timeout=options.timeout_s,
            max_retries=options.max_retries,
        )

    async def think(self, prompt: dict[str, Any]) -> AsyncGenerator[Thought, None]:
        """The answer to ``messages``, as it is written. Raises ``VoxloomError``."""
        try:
            stream = await self._client.chat.completions.create(
                model=self.model,
                messages=prompt["messages"],
                stream=True,
                stream_options={"include_usage": True},
                # As a body: what the client package does not know may be known over there.
                extra_body={
                    **prompt.get("tooling", {}),
                    **prompt.get("sampling", {}),
                    **self._extra_body,
                },
            )
            async with stream:
                async for chunk in stream:
                    if (thought := _read_chunk(chunk)) is not None:
                        yield thought
        except openai.APIError as error:
            raise self._describe(error) from error

    def _describe(self, error: openai.APIError) -> VoxloomError:
        """What a client of ours is told: never an address, never a key."""
        if isinstance(error, openai.APITimeoutError):
            return DeadlineExceededError("the language model did not answer in time")
        if isinstance(error, openai.APIConnectionError):
            return UnavailableError("the language model cannot be reached")
        if not isinstance(error, openai.APIStatusError):
            return StageFailedError("the language model broke off its answer")
        said = str(error.message)[:_MAX_MESSAGE_CHARS]
        refusal = f"the language model refused the request: {said}"
        if is_too_long(error):
            return RefusedLengthError(refusal, told_limit(error))
        if error.status_code in _REFUSED_STATUSES:
            return InvalidRequestError(refusal, param="messages")
        if error.status_code in _KEY_STATUSES:
            return StageFailedError("the language model does not accept this server's key")
        if error.status_code == 429:
            return UnavailableError("the language model has too much to do")
        return StageFailedError(f"the language model failed (status {error.status_code})")


def _read_chunk(chunk: Any) -> Thought | None:
    """A chunk of the stream; None if it says nothing. Other servers leave out what they like.

    Reasoning in a field of its own (``reasoning``, ``reasoning_content``) is no part of the answer.
    """
    thought = Thought()
    if chunk.usage is not None:
        thought.usage = _read_usage(chunk.usage)
    for choice in chunk.choices or ():
        delta = choice.delta
        thought.text += getattr(delta, "content", None) or ""
        thought.calls += [_read_call(call) for call in getattr(delta, "tool_calls", None) or ()]
        thought.finish_reason = choice.finish_reason or thought.finish_reason
    is_empty = not (thought.text or thought.calls or thought.finish_reason or thought.usage)
    return None if is_empty else thought


def _read_call(call: Any) -> dict[str, Any]:
    function = call.function
    return {
        "index": call.index or 0,
        "id": call.id or "",
        "name": (function.name if function is not None else None) or "",
        "arguments": (function.arguments if function is not None else None) or "",
    }


def _read_usage(usage: Any) -> dict[str, int]:
    details = getattr(usage, "prompt_tokens_details", None)
    reasoning = getattr(usage, "completion_tokens_details", None)
    return {
        "prompt_tokens": usage.prompt_tokens or 0,
        "completion_tokens": usage.completion_tokens or 0,
        "cached_tokens": getattr(details, "cached_tokens", None) or 0,
        "reasoning_tokens": getattr(reasoning, "reasoning_tokens", None) or 0,
    }
