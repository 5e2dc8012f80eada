"""The request of ``POST /v1/chat/completions``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from server.json_body import RequestModel
from server.schemas.speech import MAX_SPEED, MIN_SPEED, VoiceRef

MAX_MESSAGES = 2000
MAX_CHOICES = 8
_MAX_MODEL_CHARS = 256

ChatAudioFormat = Literal["wav", "mp3", "flac", "opus", "aac", "pcm16"]


class ChatAudio(BaseModel):
    """How an answer is spoken."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    voice: StrictStr | VoiceRef
    format: ChatAudioFormat
    speed: Annotated[StrictFloat | StrictInt | None, Field(ge=MIN_SPEED, le=MAX_SPEED)] = None


class StreamOptions(BaseModel):
    """What a stream tells beside the answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    include_usage: StrictBool = False


class ChatRequest(RequestModel):
    """A conversation to be gone on with.

    Fields for the language model (``temperature``, ``seed``, ``response_format`` and so on) are
    passed on to it as they are: it knows what it can do.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    must_be: ClassVar[dict[str, str]] = {
        "messages": f"a list of 1 to {MAX_MESSAGES} messages, each an object with a role",
        "model": "a string",
        "modalities": '["text"] or ["text", "audio"]',
        "audio": '{"voice": a voice id, "format": one of wav, mp3, flac, opus, aac, pcm16, '
        f'"speed": a number from {MIN_SPEED} to {MAX_SPEED}, or nothing}}',
        "stream": "true or false",
        "stream_options": '{"include_usage": true or false}',
        "n": f"an integer from 1 to {MAX_CHOICES}",
        "tools": "a list of tools",
        "parallel_tool_calls": "true or false",
    }

    messages: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_MESSAGES)]
    model: Annotated[StrictStr | None, Field(max_length=_MAX_MODEL_CHARS)] = None
    modalities: list[Literal["text", "audio"]] | None = None
    audio: ChatAudio | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[StrictInt | None, Field(ge=1, le=MAX_CHOICES)] = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: StrictBool | None = None
