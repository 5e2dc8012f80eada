"""A realtime session's configuration: the object that clients see, and what an update may change.

The state is that object itself, so what is shown is what acts. An update changes the fields that it
holds and no others; ``""``, ``[]`` and null clear. Fields that this server does not use (tracing,
noise reduction, prompt templates) are taken and shown again, and unknown ones are dropped: clients
send both, and some of them end at the first error.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from engine.errors import InvalidRequestError
from server.audio.g711 import G711Law
from server.json_body import quoted
from server.sendable import check_sendable
from server.sessions.realtime.checks import (
    Check,
    anything,
    bad_value,
    fields,
    is_bool,
    is_object,
    list_of,
    missing,
    number,
    one_of,
    optional,
    text,
)
from server.sessions.realtime.spec import Abilities
from server.sessions.realtime.transcription_checks import TRANSCRIPTION
from server.sessions.realtime.truncation import (
    AUTO,
    Truncation,
    check_truncation,
    read_truncation,
)

MAX_INSTRUCTIONS_CHARS = 100_000
MAX_TOOLS = 128
_MAX_NAME_CHARS = 256
PCM_RATE = 24000
G711_RATE = 8000
_LAWS = {"audio/pcmu": G711Law.ULAW, "audio/pcma": G711Law.ALAW}
# OpenAI's models that only write down, and leave it to their clients to end a turn.
_WITHOUT_ENDPOINTING = ("gpt-realtime-whisper", "gpt-live-transcribe")

# How long a pause ends a turn when a client asks for "semantic" detection. Nothing here looks at
# the meaning of what was said: a less eager session waits longer, and that is all.
SEMANTIC_SILENCE_MS = {"low": 1200, "medium": 700, "auto": 700, "high": 350}
_SERVER_VAD: dict[str, Any] = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "idle_timeout_ms": None,
    "create_response": True,
    "interrupt_response": True,
}
_SEMANTIC_VAD: dict[str, Any] = {
    "type": "semantic_vad",
    "eagerness": "auto",
    "create_response": True,
    "interrupt_response": True,
}


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How turns are found in the audio, and what follows from one."""

    threshold: float
    prefix_padding_ms: int
    silence_duration_ms: int
    idle_timeout_ms: int | None
    create_response: bool
    interrupt_response: bool


@dataclass(frozen=True, slots=True)
class WireFormat:
    """An audio format of the protocol: s16le at 24 kHz, or a byte a sample at 8 kHz (G.711)."""

    type: str

    @property
    def rate(self) -> int:
        return PCM_RATE if self.type == "audio/pcm" else G711_RATE

    @property
    def sample_bytes(self) -> int:
        return 2 if self.type == "audio/pcm" else 1

    @property
    def law(self) -> G711Law | None:
        return _LAWS.get(self.type)


def _check_format(value: Any, path: str) -> dict[str, Any]:
    data = is_object(value, path)
    kind = one_of("audio/pcm", "audio/pcmu", "audio/pcma")(data.get("type"), f"{path}.type")
    if kind != "audio/pcm":
        return {"type": kind}
    rate = data.get("rate", PCM_RATE)
    if rate != PCM_RATE:
        raise bad_value(f"{path}.rate", f"{PCM_RATE}", rate)
    return {"type": kind, "rate": PCM_RATE}


_SERVER_VAD_FIELDS: dict[str, Check] = {
    "threshold": number(0.0, 1.0),
    "prefix_padding_ms": number(0, 5000, whole=True),
    "silence_duration_ms": number(50, 10_000, whole=True),
    "idle_timeout_ms": optional(number(1000, 600_000, whole=True)),
    "create_response": is_bool,
    "interrupt_response": is_bool,
}
_SEMANTIC_VAD_FIELDS: dict[str, Check] = {
    "eagerness": one_of("low", "medium", "high", "auto"),
    "create_response": is_bool,
    "interrupt_response": is_bool,
}


def _check_turn_detection(value: Any, path: str) -> dict[str, Any]:
    """Fields that an update leaves out or sets to null have their defaults."""
    data = is_object(value, path)
    kind = one_of("server_vad", "semantic_vad")(data.get("type"), f"{path}.type")
    is_server = kind == "server_vad"
    given = {key: item for key, item in data.items() if item is not None}
    known = fields(_SERVER_VAD_FIELDS if is_server else _SEMANTIC_VAD_FIELDS)
    checked: dict[str, Any] = known(given, path)
    return (_SERVER_VAD if is_server else _SEMANTIC_VAD) | checked


def _check_voice(value: Any, path: str) -> str:
    """A name; ``{"id": name}`` is the same, and is shown as the name."""
    name = value.get("id") if isinstance(value, dict) else value
    checked: str = text(_MAX_NAME_CHARS)(name, path)
    return checked


def _check_tool(value: Any, path: str) -> dict[str, Any]:
    data = is_object(value, path)
    one_of("function")(data.get("type"), f"{path}.type")
    if not data.get("name"):
        raise missing(f"{path}.name")
    tool: dict[str, Any] = {"type": "function", "name": text(64)(data["name"], f"{path}.name")}
    if data.get("description") is not None:
        tool["description"] = text(MAX_INSTRUCTIONS_CHARS)(data["description"], path)
    tool["parameters"] = is_object(data.get("parameters") or {}, f"{path}.parameters")
    check_sendable(tool["parameters"], f"{path}.parameters")
    return tool


def _check_tool_choice(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return {
            "type": one_of("function")(value.get("type"), f"{path}.type"),
            "name": text(64)(value.get("name"), f"{path}.name"),
        }
    return "auto" if value is None else one_of("auto", "none", "required")(value, path)


def _check_max_tokens(value: Any, path: str) -> Any:
    return "inf" if value in (None, "inf") else number(1, 4096, whole=True)(value, path)


def _check_modalities(value: Any, path: str) -> list[str]:
    if value not in (["audio"], ["text"]):
        raise bad_value(path, '["audio"] or ["text"]', value)
    return list(value)


def _check_instructions(value: Any, path: str) -> str:
    return "" if value is None else str(text(MAX_INSTRUCTIONS_CHARS)(value, path))


def _check_tools(value: Any, path: str) -> list[Any]:
    checked: list[Any] = list_of(_check_tool, MAX_TOOLS)([] if value is None else value, path)
    return checked


def _check_speed(value: Any, path: str) -> float:
    return 1.0 if value is None else float(number(0.25, 1.5)(value, path))


_INPUT: dict[str, Check] = {
    "format": _check_format,
    "transcription": optional(fields(TRANSCRIPTION)),
    "noise_reduction": anything,
    "turn_detection": optional(_check_turn_detection),
}
_OUTPUT: dict[str, Check] = {
    "format": _check_format,
    "voice": _check_voice,
    "speed": _check_speed,
}
# What a response may set for itself, under the names that the session has them.
RESPONSE_FIELDS: dict[str, Check] = {
    "instructions": _check_instructions,
    "output_modalities": _check_modalities,
    "tools": _check_tools,
    "tool_choice": _check_tool_choice,
    "max_output_tokens": _check_max_tokens,
}
_SESSION: dict[str, Check] = RESPONSE_FIELDS | {
    "tracing": anything,
    "prompt": anything,
    "include": anything,
    "truncation": check_truncation,
    "reasoning": anything,
    "parallel_tool_calls": optional(is_bool),
}


def _default_input() -> dict[str, Any]:
    return {
        "format": {"type": "audio/pcm", "rate": PCM_RATE},
        "transcription": None,
        "noise_reduction": None,
        "turn_detection": dict(_SERVER_VAD),
    }


class RealtimeConfig:
    """The session object. Of what the server has not, and cannot, its ``abilities`` know."""

    def __init__(
        self,
        session_id: str,
        model: str,
        voice: str,
        *,
        abilities: Abilities,
        kind: str = "realtime",
        expires_at: int = 0,
    ) -> None:
        self._abilities = abilities
        self.kind = kind
        self.has_spoken = False
        self._data: dict[str, Any] = {
            "type": kind,
            "object": "realtime.session",
            "id": session_id,
            "expires_at": expires_at,
            "audio": {"input": _default_input()},
            "include": None,
        }
        if kind == "transcription":
            self._data["object"] = "realtime.transcription_session"
            return
        self._data |= {
            "model": model,
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "tracing": None,
            "prompt": None,
            "truncation": AUTO,
        }
        self._data["audio"]["output"] = {
            "format": {"type": "audio/pcm", "rate": PCM_RATE},
            "voice": voice,
            "speed": 1.0,
        }

    def to_json(self) -> dict[str, Any]:
        return copy.deepcopy(self._data)

    def restore(self, shown: dict[str, Any]) -> None:
        """Go back to what ``to_json`` gave."""
        self._data = shown

    def get(self, key: str) -> Any:
        """A field of the session; None if this kind of session has none of it."""
        return self._data.get(key)

    def update(self, session: Any) -> None:
        """Apply ``session`` of a ``session.update``, whole or not at all."""
        data = is_object(session, "session")
        if "type" not in data:
            raise missing("session.type")
        if data["type"] != self.kind:
            raise bad_value("session.type", f'"{self.kind}" in this session', data["type"])
        changes = fields(_SESSION if self.kind == "realtime" else {"include": anything})(
            data, "session"
        )
        audio = fields({"input": fields(_INPUT), "output": fields(_OUTPUT)})(
            {} if data.get("audio") is None else data["audio"], "session.audio"
        )
        output = audio.get("output", {}) if self.kind == "realtime" else {}
        self._check_output(output)
        if transcription := audio.get("input", {}).get("transcription"):
            path = "session.audio.input.transcription"
            self._abilities.check_transcription(transcription, path)
        self._data |= changes
        self._data["audio"]["input"] |= self._completed(audio.get("input", {}))
        if output:
            self._data["audio"]["output"] |= output

    def _completed(self, changes: dict[str, Any]) -> dict[str, Any]:
        """A change of the model may be one of who ends the turns."""
        model = (changes.get("transcription") or {}).get("model") or ""
        leaves_turns = self.kind == "transcription" and model.startswith(_WITHOUT_ENDPOINTING)
        return {"turn_detection": None} | changes if leaves_turns else changes

    def _check_output(self, output: dict[str, Any]) -> None:
        if "speed" in output:
            self._abilities.check_speed(output["speed"], "session.audio.output.speed")
        if "voice" not in output:
            return
        path = "session.audio.output.voice"
        wanted = self._abilities.find_voice(output["voice"], path)
        current = self._data["audio"]["output"]["voice"]
        if self.has_spoken and wanted != self.voice_id(current):
            raise InvalidRequestError(
                f"'{path}' must be {current!r}, got {quoted(output['voice'])}: the voice is fixed "
                "once the session has spoken.",
                param=path,
                code="cannot_update_voice",
            )

    def check_own_voice(self, voice: Any, path: str) -> str:
        """A voice that one response asks for."""
        name = _check_voice(voice, path)
        self._abilities.find_voice(name, path)
        return name

    def check_own_speed(self, speed: Any, path: str) -> float:
        """A speed that one response asks for."""
        checked = _check_speed(speed, path)
        self._abilities.check_speed(checked, path)
        return checked

    def voice_id(self, name: str) -> str:
        """The id of a voice that has been checked: clients call it by other names, too."""
        return self._abilities.find_voice(name, "voice")

    # --- what acts -------------------------------------------------------------------------------

    @property
    def input_format(self) -> WireFormat:
        return WireFormat(self._data["audio"]["input"]["format"]["type"])

    @property
    def output(self) -> dict[str, Any]:
        """``format``, ``voice`` and ``speed``."""
        output: dict[str, Any] = self._data["audio"]["output"]
        return output

    @property
    def truncation(self) -> Truncation | None:
        """What prompts may leave out; None: nothing."""
        return read_truncation(self._data["truncation"])

    @property
    def transcription(self) -> dict[str, Any] | None:
        """Options of the transcription that the client wants to see; None: it wants none."""
        wanted: dict[str, Any] | None = self._data["audio"]["input"]["transcription"]
        return {} if wanted is None and self.kind == "transcription" else wanted

    @property
    def turn_rules(self) -> TurnRules | None:
        """None: the client ends turns itself."""
        detection = self._data["audio"]["input"]["turn_detection"]
        if detection is None:
            return None
        if detection["type"] == "server_vad":
            keys = TurnRules.__dataclass_fields__
            return TurnRules(**{key: detection[key] for key in keys})
        return TurnRules(
            threshold=_SERVER_VAD["threshold"],
            prefix_padding_ms=_SERVER_VAD["prefix_padding_ms"],
            silence_duration_ms=SEMANTIC_SILENCE_MS[detection["eagerness"]],
            idle_timeout_ms=None,
            create_response=detection["create_response"],
            interrupt_response=detection["interrupt_response"],
        )


def check_output_format(value: Any, path: str) -> dict[str, Any]:
    """An audio format that one response asks for."""
    return _check_format(value, path)
