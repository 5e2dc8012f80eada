"""The items of a conversation: as clients send them, as they are shown, as a model reads them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engine.errors import InvalidRequestError
from server.audio.g711 import G711Writer, decode_g711
from server.base64_pieces import decode_base64
from server.sessions.realtime.checks import (
    Check,
    bad_value,
    fields,
    is_object,
    list_of,
    missing,
    one_of,
    text,
)
from server.sessions.realtime.config import WireFormat
from server.sessions.realtime.input_audio import Clip
from server.sessions.realtime.spoken_text import SpokenText

MAX_TEXT_CHARS = 1_000_000
MAX_ID_CHARS = 64
_MAX_PARTS = 64
# Clients end a connection at a message of 1 MiB, some of them: an item's audio is shown only as
# long as it stays well below (base64 takes 4 characters for 3 bytes).
_MAX_SHOWN_AUDIO_BYTES = 450_000
# A player's clock and ours may differ by a little when it says how much it has played.
_TRUNCATE_SLACK_MS = 50
_PARTS = {
    "system": ("input_text",),
    "user": ("input_text", "input_audio", "input_image"),
    "assistant": ("output_text",),
}


@dataclass(slots=True)
class Item:
    """One item. ``parts`` is its content as it is shown, without audio.

    ``awaits_transcript``: a turn whose words are not known yet. ``is_silent``: nobody spoke, an
    idle timeout made the item. ``heard``: the text that is left of an item of which not all was
    heard; ``heard_ms``: how much sound a client has left of it.
    """

    id: str
    type: str
    role: str | None = None
    status: str = "completed"
    parts: list[dict[str, Any]] = field(default_factory=list)
    call: dict[str, str] = field(default_factory=dict)
    clip: Clip | None = None
    spoken: SpokenText | None = None
    awaits_transcript: bool = False
    is_silent: bool = False
    heard: str | None = None
    heard_ms: float | None = None

    def to_json(self, *, audio_in: WireFormat | None = None) -> dict[str, Any]:
        """The item as it is shown; with ``audio_in`` as it counts now, its audio in that format."""
        shown: dict[str, Any] = {"id": self.id, "object": "realtime.item", "type": self.type}
        shown["status"] = self.status
        if self.type != "message":
            return shown | self.call
        parts = [dict(part) for part in self.parts]
        if audio_in is not None:
            for part in parts:
                if part["type"] == "input_audio":
                    part |= _shown_audio(self.clip, audio_in)
                elif part["type"] == "output_audio" and self.heard is not None:
                    part["transcript"] = self.heard
        return shown | {"role": self.role, "content": parts}

    @property
    def text(self) -> str:
        """What a model reads of the item."""
        if self.heard is not None:
            return self.heard
        if self.spoken is not None:
            return self.spoken.text
        words = [part.get("text") or part.get("transcript") or "" for part in self.parts]
        return "\n".join(word for word in words if word)

    def truncate(self, end_ms: float) -> None:
        """Keep what has sounded by ``end_ms``. Raises ``InvalidRequestError``."""
        if self.spoken is None or not self.parts or self.parts[0]["type"] != "output_audio":
            raise InvalidRequestError(
                "Only model output audio messages can be truncated.",
                param="item_id",
                code="unsupported_content_type",
            )
        had_ms = self.spoken.audio_ms if self.heard_ms is None else self.heard_ms
        if end_ms > had_ms + _TRUNCATE_SLACK_MS:
            raise InvalidRequestError(
                f"Audio content of {had_ms:.0f}ms is already shorter than {end_ms:.0f}ms",
                param="audio_end_ms",
            )
        self.heard_ms = min(end_ms, had_ms)
        self.heard = self.spoken.text[: self.spoken.chars_until(end_ms)].rstrip()
        self.parts = [{"type": "output_audio", "transcript": self.heard}]

    def keep_sounded(self) -> None:
        """Of a spoken answer that was cut short, the words count that had sounded by then."""
        if (
            self.spoken is not None
            and self.heard is None
            and self.parts[0]["type"] != ("output_text")
        ):
            self.heard = self.spoken.text[: self.spoken.chars_until(self.spoken.audio_ms)].rstrip()

    @property
    def num_bytes(self) -> int:
        """What the item holds, for the bound on a conversation."""
        size = sum(len(str(value)) for part in self.parts for value in part.values())
        size += sum(map(len, self.call.values())) + (len(self.clip.pcm) if self.clip else 0)
        return size + (len(self.spoken.text) if self.spoken is not None else 0)


def parse_item(value: Any, path: str, new_id: Callable[[], str], fmt: WireFormat) -> Item:
    """An item that a client creates, its audio in ``fmt``. Raises ``InvalidRequestError``."""
    data = is_object(value, path)
    kind = one_of("message", "function_call", "function_call_output")(
        data.get("type"), f"{path}.type"
    )
    given = data.get("id")
    if given == "":
        raise bad_value(f"{path}.id", f"a string of 1 to {MAX_ID_CHARS} characters", given)
    item_id = new_id() if given is None else text(MAX_ID_CHARS)(given, f"{path}.id")
    if kind == "message":
        return _parse_message(data, path, item_id, fmt)
    names = ("call_id", "name", "arguments") if kind == "function_call" else ("call_id", "output")
    call = fields({name: text(MAX_TEXT_CHARS) for name in names}, names)(data, path)
    return Item(item_id, kind, call=call)


def _parse_message(data: dict[str, Any], path: str, item_id: str, fmt: WireFormat) -> Item:
    role = one_of(*_PARTS)(data.get("role"), f"{path}.role")
    if not data.get("content"):
        raise missing(f"{path}.content")
    item = Item(item_id, "message", role)

    def take_part(value: Any, where: str) -> dict[str, Any]:
        return _parse_part(is_object(value, where), where, item, fmt)

    item.parts = list_of(take_part, _MAX_PARTS)(data["content"], f"{path}.content")
    return item


def _parse_part(part: dict[str, Any], path: str, item: Item, fmt: WireFormat) -> dict[str, Any]:
    kind = one_of(*_PARTS[item.role or "user"])(part.get("type"), f"{path}.type")
    if kind == "input_audio":
        return _parse_audio(part, path, item, fmt)
    checks: dict[str, Check] = {"text": text(MAX_TEXT_CHARS)}
    name = "text"
    if kind == "input_image":
        name, checks = "image_url", {"image_url": _check_image, "detail": text(16)}
    known: dict[str, Any] = fields(checks, (name,))(part, path)
    return {"type": kind} | known


def _check_image(value: Any, path: str) -> str:
    """Images travel inside the message; nothing is fetched on a client's word."""
    url = str(text(20_000_000)(value, path))
    if not url.startswith("data:image/"):
        raise bad_value(path, "a data: URI of an image", url)
    return url


def _parse_audio(part: dict[str, Any], path: str, item: Item, fmt: WireFormat) -> dict[str, Any]:
    """Audio of a message that a client writes itself, in base64."""
    if item.clip is not None:
        raise bad_value(path, "the only input_audio of its item", "another one")
    transcript = part.get("transcript")
    if transcript is not None:
        text(MAX_TEXT_CHARS)(transcript, f"{path}.transcript")
    if part.get("audio") is not None:
        item.clip = Clip(decode_audio(part["audio"], f"{path}.audio", fmt), fmt.rate, 0)
        item.awaits_transcript = transcript is None
    elif transcript is None:
        raise missing(f"{path}.audio")
    return {"type": "input_audio", "transcript": transcript}


def _shown_audio(clip: Clip | None, fmt: WireFormat) -> dict[str, str]:
    """The audio of a part, unless there is none, too much, or it came in another format."""
    if clip is None or clip.rate != fmt.rate or len(clip.pcm) > _MAX_SHOWN_AUDIO_BYTES:
        return {}
    samples = np.frombuffer(clip.pcm, "<i2")
    data = clip.pcm if fmt.law is None else G711Writer(fmt.law).write(samples)
    return {"audio": base64.b64encode(data).decode("ascii")}


def decode_audio(value: Any, path: str, fmt: WireFormat) -> bytes:
    """Samples, s16le, from audio in base64; audio that is bytes has been read from that before."""
    if not isinstance(value, str | bytes):
        raise bad_value(path, "a base64 string", value)
    try:
        data = value if isinstance(value, bytes) else decode_base64(value)
    except ValueError:
        raise bad_value(path, "valid base64", value) from None
    if len(data) % fmt.sample_bytes:
        raise bad_value(path, f"whole samples of {fmt.sample_bytes} bytes", f"{len(data)} bytes")
    return data if fmt.law is None else decode_g711(data, fmt.law)
