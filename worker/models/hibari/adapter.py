"""Caller's side of hibari: its voices, and the checks and cleaning of its prompts.

Runs in the API process: nothing here loads a model, only the files of fetched voices are checked.
"""

from __future__ import annotations

import logging
import math
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import Prompt
from engine.pipeline import Voice
from worker.models.hibari.styles import SpokenStyle, read_instructions
from worker.models.hibari.text.clean import clean_text, pack_clean
from worker.models.speech_prompt import check_keys, text_of

logger = logging.getLogger("voxloom.hibari")

_VOICES_FILE = Path(__file__).parent / "voices.yaml"
_MIN_SPEED, _MAX_SPEED = 0.25, 4.0
# The limits of shape.py, which needs numpy.
_MIN_PITCH_RATIO, _MAX_PITCH_RATIO, _MAX_PITCH_RANGE = 0.5, 2.0, 2.5
# How instructions act, by level from -3 to 3: a factor on the speed, semitones, and a factor on the
# distance of the pitch from its mean.
_SPEEDS = (0.68, 0.78, 0.9, 1.0, 1.12, 1.27, 1.42)
_SEMITONES = (-4.0, -3.0, -1.5, 0.0, 1.5, 3.5, 5.0)
_PITCH_RANGES = (0.3, 0.5, 0.75, 1.0, 1.2, 1.4, 1.6)
_LANGUAGES = {
    "en": None,
    "english": None,
    "auto": None,
    "en-us": False,
    "american english": False,
    "en-gb": True,
    "british english": True,
}


def list_voices() -> list[Voice]:
    """The voices whose model file is present and is one, first the default one."""
    return [voice for voice in all_voices() if _model_path(voice) is not None]


@lru_cache(maxsize=1)
def all_voices() -> tuple[Voice, ...]:
    """Every voice of voices.yaml, whether or not its model file is present."""
    data = yaml.safe_load(_VOICES_FILE.read_text(encoding="utf-8"))
    try:
        return msgspec.convert(data["voices"], tuple[Voice, ...])
    except (msgspec.ValidationError, KeyError) as error:
        raise ConfigError(f"{_VOICES_FILE.name}: {error}") from error


def transform_prompt(prompt: Prompt) -> Prompt:
    """What the prosody stage reads, from ``text``, ``voice``, ``speed``, ``language`` and
    ``instructions`` (see ``styles.py``).

    A whole text is cleaned here, so that a request with nothing to say is refused before anything
    is queued; one that comes in segments is cleaned by the stage, sentence by sentence.
    ``warnings`` tells what was skipped. Raises ``InvalidRequestError``.
    """
    spoken, style = read_prompt(prompt)
    speed = spoken["speed"] * _of_level(_SPEEDS, style.rate)
    return spoken | {
        "speed": min(max(speed, _MIN_SPEED), _MAX_SPEED),
        "shape": _styled_shape(spoken["shape"], style),
    }


def read_prompt(prompt: Prompt) -> tuple[Prompt, SpokenStyle]:
    """A prompt, checked and cleaned, before its style acts on it, and the style.

    Raises ``InvalidRequestError``.
    """
    check_keys(prompt)
    voice = _find_voice(prompt.get("voice"))
    warnings: list[str] = []
    text = text_of(prompt)
    spoken = {"text": text} if prompt.get("resumable") else _clean(text, warnings)
    style = _read_style(prompt.get("instructions"), warnings)
    speed = _check_speed(prompt.get("speed")) * float(voice.options.get("speed", 1.0))
    read = spoken | {
        "speed": min(max(speed, _MIN_SPEED), _MAX_SPEED),
        "british": _british(prompt.get("language"), voice),
        "model_path": _model_name(voice),
        "shape": voice.options.get("shape", {}),
        "warnings": warnings,
    }
    return read, style


def _read_style(instructions: Any, warnings: list[str]) -> SpokenStyle:
    if instructions is None:
        return SpokenStyle()
    if not isinstance(instructions, str):
        raise InvalidRequestError("instructions must be a string", param="instructions")
    style = read_instructions(instructions)
    if style.warning is not None:
        warnings.append(style.warning)
    return style


def _styled_shape(shape: dict[str, float], style: SpokenStyle) -> dict[str, float]:
    """A voice's shape (see ``shape.py``) under a style, within the shape's limits."""
    if not style.pitch and not style.liveliness:
        return shape
    ratio = shape.get("pitch_ratio", 1.0) * 2 ** (_of_level(_SEMITONES, style.pitch) / 12)
    width = shape.get("pitch_range", 1.0) * _of_level(_PITCH_RANGES, style.liveliness)
    return shape | {
        "pitch_ratio": min(max(ratio, _MIN_PITCH_RATIO), _MAX_PITCH_RATIO),
        "pitch_range": min(width, _MAX_PITCH_RANGE),
    }


def _of_level(values: tuple[float, ...], level: int) -> float:
    return values[level + len(values) // 2]


def _clean(text: str, warnings: list[str]) -> dict[str, object]:
    cleaned = clean_text(text)
    warnings.extend(cleaned.warnings)
    if not cleaned.speakable:
        detail = f" ({'; '.join(cleaned.warnings)})" if cleaned.warnings else ""
        raise InvalidRequestError(
            f"input holds nothing that can be spoken in English{detail}", param="input"
        )
    return pack_clean(cleaned)


def _find_voice(name: Any) -> Voice:
    voices = list_voices()
    if name is None:
        return voices[0]
    for voice in voices:
        if voice.id == name:
            return voice
    known = ", ".join(voice.id for voice in voices)
    raise InvalidRequestError(
        f"unknown voice {str(name)[:64]!r}; the voices are: {known}", param="voice"
    )


def _check_speed(speed: Any) -> float:
    value = 1.0 if speed is None else speed
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not _MIN_SPEED <= value <= _MAX_SPEED:
        raise InvalidRequestError(
            f"speed must be a number from {_MIN_SPEED} to {_MAX_SPEED}", param="speed"
        )
    return float(value)


def _british(language: Any, voice: Voice) -> bool:
    """Which English the text is read in: the asked one, else the voice's own."""
    if language is None:
        return voice.language == "en-GB"
    asked = str(language).strip().lower().replace("_", "-")
    if asked not in _LANGUAGES:
        raise InvalidRequestError(
            f"unknown language {str(language)[:64]!r}; this voice speaks en, en-US and en-GB",
            param="language",
        )
    british = _LANGUAGES[asked]
    return voice.language == "en-GB" if british is None else british


def _model_name(voice: Voice) -> str:
    """The path that the stages load; "" is the model inside the package."""
    path = _model_path(voice)
    return "" if path is None or path == Path() else str(path)


def _model_path(voice: Voice) -> Path | None:
    """The voice's model file; None if the user must fetch it and has not, or it is no voice."""
    file_name = voice.options.get("model_file")
    if file_name is None:
        return Path()  # the one inside the package, which only a worker looks up
    path = cache_dir() / str(file_name)
    if not path.is_file():
        return None
    state = path.stat()
    return path if _is_voice(path, state.st_size, state.st_mtime_ns) else None


@lru_cache(maxsize=32)
def _is_voice(path: Path, _num_bytes: int, _modified_ns: int) -> bool:
    """Whether a fetched file holds a hibari voice, looked at again when it has changed."""
    # Needs onnx, which takes a while to import: only where someone has fetched a voice.
    from worker.models.hibari.graphs import read_voice

    try:
        read_voice(path)
    except ConfigError as error:
        logger.warning("a voice is left out: %s", error)
        return False
    return True


def cache_dir() -> Path:
    """Where the hibari package keeps downloaded voices: HIBARI_HOME, else the user's cache."""
    home = os.environ.get("HIBARI_HOME")
    if home:
        return Path(home)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "hibari"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hibari"
