"""Caller's side of a thinker: the checks of its prompts. Loads nothing.

Keys of a prompt:

- ``messages``: the chat API's, all of them text (and what the model can see);
- ``sampling``, ``tooling``: the chat API's fields of those kinds, passed on as they are;
- ``truncation``: what of the messages may be left out where not all of them fit, as
  ``worker.models.thinker.truncation`` has it; without it all are asked, or none;
- ``voice``, ``speed``, ``language``: how the answer is spoken, where the pipeline speaks.

Where the thinker comes behind stages that listen, a prompt with ``mode`` is theirs to check
(``transform_cascade``); one without comes with its words and begins at the thinker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Prompt
from engine.pipeline import Voice
from worker.models.hibari import adapter as hibari
from worker.models.thinker.truncation import read_truncation
from worker.models.whisper import adapter as whisper

SPEECH_KEYS = ("voice", "speed", "language")
_KEYS = frozenset({"messages", "sampling", "tooling", "truncation", *SPEECH_KEYS})
# The engine adds these.
_ENGINE_KEYS = frozenset({"request_id", "resumable", "text"})


def list_voices(languages: Sequence[str] = ()) -> list[Voice]:
    """``languages``, of the pipeline's options, are the recogniser's."""
    return hibari.list_voices()


def transform_prompt(prompt: Prompt) -> Prompt:
    """The prompt as it is, checked. Raises ``InvalidRequestError`` that names the key."""
    unknown = sorted(prompt.keys() - _KEYS - _ENGINE_KEYS)
    if unknown:
        known = ", ".join(sorted(_KEYS))
        raise InvalidRequestError(
            f"unknown prompt key {unknown[0]!r}; known: {known}", param=unknown[0]
        )
    _check_messages(prompt.get("messages"))
    for key in ("sampling", "tooling"):
        if not isinstance(prompt.get(key, {}), dict):
            raise InvalidRequestError(f"{key} must be an object", param=key)
    read_truncation(prompt.get("truncation"))
    spoken: dict[str, Any] = {key: prompt[key] for key in SPEECH_KEYS if key in prompt}
    hibari.transform_prompt(spoken | {"text": "", "resumable": True})
    return prompt


def transform_cascade(prompt: Prompt, languages: Sequence[str] = ()) -> Prompt:
    """What the stage at which a prompt enters a cascade reads: something to hear, or messages.

    ``languages`` are those that the recogniser knows.
    """
    if "mode" in prompt:
        return whisper.transform_prompt(prompt, languages)
    return transform_prompt(prompt)


def _check_messages(messages: Any) -> None:
    is_list = isinstance(messages, list) and bool(messages)
    if not is_list or not all(isinstance(message, dict) for message in messages):
        raise InvalidRequestError(
            "messages must be a list of at least one message", param="messages"
        )
