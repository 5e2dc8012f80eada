"""From a chat request to what the engine is told. Everything but audio is checked here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidRequestError
from server.audio.formats import AudioFormat
from server.audio.g711 import G711Law
from server.base64_pieces import decode_base64
from server.engine_port import EnginePort
from server.schemas.chat import ChatRequest
from server.schemas.speech import VoiceRef
from server.sendable import check_sendable
from server.talk.abilities import TalkAbilities
from server.talk.audio_fetch import AudioFetcher
from server.talk.audio_shelf import AudioShelf
from server.talk.public_hosts import RefusedUrlError

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_FORMATS = {
    "wav": AudioFormat.WAV,
    "mp3": AudioFormat.MP3,
    "flac": AudioFormat.FLAC,
    "opus": AudioFormat.OPUS,
    "aac": AudioFormat.AAC,
    "pcm16": AudioFormat.PCM,
}
# Fields that are ours, or OpenAI's own business; all others are the language model's.
_NOT_SAMPLING = frozenset(
    {
        *("messages", "model", "modalities", "audio", "stream", "stream_options", "n"),
        *("tools", "tool_choice", "parallel_tool_calls"),
        *("store", "metadata", "service_tier", "prediction", "web_search_options", "user"),
        *("safety_identifier", "prompt_cache_key"),
        *("extra_body", "extra_headers", "extra_query", "timeout"),
    }
)
_MAX_SAMPLING_FIELDS = 64
# Room for one seed a choice below 2**63.
_MAX_SEED = 2**62
# Each is a request to another server.
_MAX_URLS = 8


@dataclass(frozen=True, slots=True)
class HeardPart:
    """Audio inside a message: its bytes, or where they are to be fetched; and the part that stands
    for it until it is read.
    """

    data: bytes
    part: dict[str, Any]
    param: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class ChatPlan:
    """One request, resolved. ``messages`` are the model's but for the ``heard`` parts."""

    model: str
    messages: list[dict[str, Any]]
    heard: list[HeardPart]
    prompt: dict[str, Any]
    speaks: bool
    num_choices: int
    seed: int | None
    is_stream: bool
    includes_usage: bool
    fmt: AudioFormat
    source_rate: int
    sample_rate: int
    bit_rate: int | None = None
    law: G711Law | None = None


def plan_chat(
    request: ChatRequest, engine: EnginePort, shelf: AudioShelf, fetcher: AudioFetcher
) -> ChatPlan:
    """The plan for a request. Raises ``InvalidRequestError``."""
    speaks = "audio" in (request.modalities or ())
    rate = engine.pipeline.sample_rate
    fmt = _format(request, speaks=speaks)
    heard: list[HeardPart] = []
    check_sendable(request.messages, "messages")
    messages = [
        _read_message(message, f"messages[{index}]", heard, shelf)
        for index, message in enumerate(request.messages)
    ]
    _check_urls(heard, fetcher)
    prompt: dict[str, Any] = {"sampling": _sampling(request), "tooling": _tooling(request)}
    if speaks:
        prompt |= _speech(request, engine)
    return ChatPlan(
        model=request.model or engine.pipeline.name,
        messages=messages,
        heard=heard,
        prompt=prompt,
        speaks=speaks,
        num_choices=request.n or 1,
        seed=_seed(prompt["sampling"].get("seed")),
        is_stream=bool(request.stream),
        includes_usage=bool(request.stream_options and request.stream_options.include_usage),
        fmt=fmt,
        source_rate=rate,
        # AAC's padding is too long at low rates; the speech routes do the same.
        sample_rate=48_000 if fmt is AudioFormat.AAC else rate,
    )


def _format(request: ChatRequest, *, speaks: bool) -> AudioFormat:
    if not speaks:
        return AudioFormat.PCM
    if request.audio is None:
        raise InvalidRequestError(
            'audio is missing; with the modality "audio" it must be '
            f"{ChatRequest.must_be['audio']}",
            param="audio",
            code="missing_required_parameter",
        )
    if request.stream and request.audio.format != "pcm16":
        raise InvalidRequestError(
            f"Unsupported value: 'audio.format' does not support '{request.audio.format}' when "
            "stream=true. Supported values are: 'pcm16'.",
            param="audio.format",
            code="unsupported_value",
        )
    return _FORMATS[request.audio.format]


def _speech(request: ChatRequest, engine: EnginePort) -> dict[str, Any]:
    """How the answer is spoken."""
    assert request.audio is not None
    abilities, voice, speed = TalkAbilities(engine), request.audio.voice, request.audio.speed
    name = voice.id if isinstance(voice, VoiceRef) else voice
    speech: dict[str, Any] = {"voice": abilities.find_voice(name, "audio.voice")}
    if speed is None:
        return speech
    abilities.check_speed(speed, "audio.speed")
    return speech | {"speed": speed}


def _sampling(request: ChatRequest) -> dict[str, Any]:
    given = {
        key: value
        for key, value in (request.model_extra or {}).items()
        if key not in _NOT_SAMPLING and value is not None
    }
    if len(given) > _MAX_SAMPLING_FIELDS:
        raise InvalidRequestError(f"a request may have at most {_MAX_SAMPLING_FIELDS} more fields")
    return _sent_on(given)


def _seed(given: Any) -> int | None:
    """The voice's seed. The language model may know others than whole numbers."""
    is_whole = isinstance(given, int) and not isinstance(given, bool)
    return given if is_whole and 0 <= given <= _MAX_SEED else None


def _tooling(request: ChatRequest) -> dict[str, Any]:
    names = ("tools", "tool_choice", "parallel_tool_calls")
    given = {name: getattr(request, name) for name in names}
    return _sent_on({name: value for name, value in given.items() if value not in (None, [])})


def _sent_on(given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        check_sendable(value, name)
    return given


def _read_message(
    message: dict[str, Any], path: str, heard: list[HeardPart], shelf: AudioShelf
) -> dict[str, Any]:
    """The message as the model gets it; audio in it is added to ``heard``."""
    role = message.get("role")
    if role not in _ROLES:
        raise _refuse(f"{path}.role", f"one of {', '.join(_ROLES)}")
    read = {key: value for key, value in message.items() if key not in ("audio", "refusal")}
    audio = message.get("audio")
    if role == "assistant" and audio is not None:
        read["content"] = _earlier_words(audio, f"{path}.audio.id", shelf)
        return read
    content = message.get("content")
    if isinstance(content, list):
        read["content"] = [
            _read_part(part, f"{path}.content[{index}]", heard)
            for index, part in enumerate(content)
        ]
    elif not isinstance(content, str) and (content is not None or role != "assistant"):
        raise _refuse(f"{path}.content", "a string or a list of parts")
    return read


def _earlier_words(audio: Any, path: str, shelf: AudioShelf) -> str:
    audio_id = audio.get("id") if isinstance(audio, dict) else None
    if not isinstance(audio_id, str):
        raise _refuse(path, "the id of an earlier spoken answer")
    return shelf.find(audio_id, path)


def _read_part(part: Any, path: str, heard: list[HeardPart]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "input_audio":
        return _read_audio(part.get("input_audio"), f"{path}.input_audio", heard)
    if kind == "audio_url":
        return _read_audio_url(part.get("audio_url"), f"{path}.audio_url", heard)
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "image_url":
        return _read_image(part, path)
    raise _refuse(path, "a part of type text, input_audio, audio_url or image_url")


def _read_image(part: dict[str, Any], path: str) -> dict[str, Any]:
    """An address would be fetched by the language model, from inside its network."""
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, dict) else None
    if not isinstance(url, str) or not url.startswith("data:image/"):
        raise _refuse(f"{path}.image_url.url", "a data: URI of an image")
    return dict(part)


def _read_audio(value: Any, path: str, heard: list[HeardPart]) -> dict[str, Any]:
    data = value.get("data") if isinstance(value, dict) else None
    if not isinstance(data, str) or not data:
        raise _refuse(f"{path}.data", "audio in base64")
    return _heard(data, f"{path}.data", heard)


def _read_audio_url(value: Any, path: str, heard: list[HeardPart]) -> dict[str, Any]:
    """A ``data:`` URI, or an address: whether that may be fetched is looked at later."""
    path = f"{path}.url"
    url = value.get("url") if isinstance(value, dict) else None
    if not isinstance(url, str) or not url:
        raise _refuse(path, "a data: URI of audio in base64, or a URL")
    header, separator, data = url.partition(",")
    if separator and header.startswith("data:audio/") and header.endswith(";base64"):
        return _heard(data, path, heard)
    part = {"type": "text", "text": ""}
    heard.append(HeardPart(b"", part, path, url))
    return part


def _check_urls(heard: list[HeardPart], fetcher: AudioFetcher) -> None:
    fetched = [part for part in heard if part.url]
    for number, part in enumerate(fetched):
        if not fetcher.is_allowed:
            raise _refuse(part.param, "a data: URI of audio in base64; this server fetches nothing")
        if number == _MAX_URLS:
            raise _refuse(part.param, f"one of at most {_MAX_URLS} URLs of a request")
        try:
            fetcher.check(part.url)
        except RefusedUrlError as error:
            raise InvalidRequestError(f"{part.param}: the URL {error}", param=part.param) from None


def _heard(data: str, path: str, heard: list[HeardPart]) -> dict[str, Any]:
    try:
        decoded = decode_base64(data)
    except ValueError:
        raise _refuse(path, "valid base64") from None
    part = {"type": "text", "text": ""}
    heard.append(HeardPart(decoded, part, path))
    return part


def _refuse(path: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{path} must be {allowed}", param=path)
