"""How servers with OpenAI's chat API say that messages are more than their model reads.

    server      says so by
    OpenAI      the code ``context_length_exceeded``
    llama.cpp   the type ``exceed_context_size_error``, beside it ``n_ctx``
    vLLM        the words "maximum context length is 4096 tokens" (its code is a status)
    Ollama      llama.cpp's answer, also as text; where it is not asked to, it leaves messages out

LiteLLM and other gateways hand these on, mostly as text: so the words are looked for everywhere.
"""

from __future__ import annotations

import re

import openai

# The statuses that a request which is too long is refused with; llama.cpp used to say 500.
_STATUSES = (400, 413, 422, 500)
_CODE, _TYPE, _LIMIT = "context_length_exceeded", "exceed_context_size_error", "n_ctx"
_WORDS = re.compile(
    rf"{_CODE}|{_TYPE}|input token count|maximum model length"
    r"|(maximum|available|model's|exceeds?( the)?) (model )?context (length|size|window)",
    re.IGNORECASE,
)
_TOLD = re.compile(r"context (?:length|size|window)(?: is| of|:)? \(?(\d{2,9})", re.IGNORECASE)


def is_too_long(error: openai.APIStatusError) -> bool:
    """Whether a refusal is about the length of the messages."""
    if error.status_code not in _STATUSES:
        return False
    return error.code == _CODE or error.type == _TYPE or _WORDS.search(_said(error)) is not None


def told_limit(error: openai.APIStatusError) -> int | None:
    """How many tokens the model reads, if the refusal says so."""
    body = error.body
    limit = body.get(_LIMIT) if isinstance(body, dict) else None
    if isinstance(limit, int) and limit > 0:
        return limit
    told = _TOLD.search(_said(error))
    return int(told[1]) if told else None


def _said(error: openai.APIStatusError) -> str:
    return f"{error.message} {error.body}"
