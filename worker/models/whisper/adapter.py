"""Caller's side of hearing: the checks of its prompts. Loads nothing.

Keys of a prompt, all but ``mode`` optional:

- ``mode``: ``recording`` (windows of a whole recording) or ``live`` (a stream in which turns are
  found);
- ``detection``: ``threshold``, ``prefix_padding_ms`` and ``silence_duration_ms``, or None. Live,
  None leaves the turns to the caller, who ends each with a flush; in a recording each pause of that
  length ends a chunk, and None lets a chunk hold several sentences;
- ``guesses``: live, recognise when a pause begins rather than when it has lasted long enough;
- ``language``, ``languages``: what is spoken, or one of what; without them it is found out;
- ``task``: ``transcribe`` or ``translate`` (to English);
- ``context``: text before the audio, whose style and spellings are gone on with;
- ``keywords``: words that are likely;
- ``temperature``: from 0 to 1; at 0 it is raised where the text gets unlikely or repeats itself;
- ``word_times``: find the time of each word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import Prompt
from worker.models.whisper.languages import LANGUAGES, find_language

_MODES = ("recording", "live")
_TASKS = ("transcribe", "translate")
# Whisper reads the last 223 tokens; this many characters hold more in every alphabet.
_MAX_CONTEXT_CHARS = 10_000
_MAX_KEYWORDS = 100
_MAX_DURATION_MS = 10_000
_DETECTION_RANGES = {
    "threshold": (0.0, 1.0),
    "prefix_padding_ms": (0, _MAX_DURATION_MS),
    "silence_duration_ms": (0, _MAX_DURATION_MS),
}
# The engine adds these.
_ENGINE_KEYS = frozenset({"request_id", "resumable", "text"})


def transform_prompt(prompt: Prompt, languages: Sequence[str] = ()) -> Prompt:
    """What the stages read: ``mode``, ``guesses``, ``detection`` and ``recognition``.

    ``languages`` are codes of those that the recogniser knows; none given: all of Whisper's.
    Raises ``InvalidRequestError`` that names the key.
    """
    given = {key: value for key, value in prompt.items() if key not in _ENGINE_KEYS}
    unknown = sorted(given.keys() - _CHECKS.keys() - _LANGUAGE_CHECKS.keys())
    if unknown:
        known = ", ".join(sorted([*_CHECKS, *_LANGUAGE_CHECKS]))
        raise InvalidRequestError(
            f"unknown prompt key {unknown[0]!r}; known: {known}", param=unknown[0]
        )
    checked = {key: check(given.get(key)) for key, check in _CHECKS.items()}
    _check_task(checked["task"], languages)
    checked |= {
        key: check(given.get(key), languages or tuple(LANGUAGES))
        for key, check in _LANGUAGE_CHECKS.items()
    }
    return {
        "mode": checked.pop("mode"),
        "guesses": checked.pop("guesses"),
        "detection": checked.pop("detection"),
        "recognition": checked,
    }


def _refuse(key: str, allowed: str) -> InvalidRequestError:
    return InvalidRequestError(f"{key} must be {allowed}", param=key)


def _one_of(key: str, values: tuple[str, ...], default: str | None) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        chosen = default if value is None else value
        if not isinstance(chosen, str) or chosen not in values:
            raise _refuse(key, f"one of {', '.join(values)}")
        return chosen

    return check


def _flag(key: str) -> Callable[[Any], bool]:
    def check(value: Any) -> bool:
        if value not in (None, True, False):
            raise _refuse(key, "true or false")
        return bool(value)

    return check


def _check_detection(value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise _refuse("detection", f"an object with {', '.join(_DETECTION_RANGES)}, or null")
    checked = {}
    for key, given in value.items():
        if key not in _DETECTION_RANGES:
            known = ", ".join(_DETECTION_RANGES)
            raise InvalidRequestError(f"unknown detection key {key!r}; known: {known}", param=key)
        if given is not None:
            checked[key] = _number(key, given, *_DETECTION_RANGES[key])
    return checked


def _number(key: str, value: Any, low: float, high: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not low <= value <= high:
        raise _refuse(key, f"a number from {low} to {high}")
    return float(value) if isinstance(low, float) else round(value)


def _check_temperature(value: Any) -> float:
    return _number("temperature", 0 if value is None else value, 0.0, 1.0)


def _check_language(value: Any, known: Sequence[str]) -> str | None:
    if value in (None, "", "auto"):
        return None
    code = _code(value)
    if code not in known:
        raise _unknown_language("language", value, known)
    return code


def _check_languages(value: Any, known: Sequence[str]) -> list[str]:
    """Those that the recogniser knows, of which there must be one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _refuse("languages", "a list of language codes")
    codes = [_code(item) for item in value]
    left = [code for code in codes if code is not None and code in known]
    if None in codes or (codes and not left):
        odd = value[codes.index(None) if None in codes else 0]
        raise _unknown_language("languages", odd, known)
    return left


def _code(value: Any) -> str | None:
    return find_language(value) if isinstance(value, str) else None


def _unknown_language(key: str, value: Any, known: Sequence[str]) -> InvalidRequestError:
    return _refuse(key, f"one of {', '.join(known)}, got {str(value)[:40]!a}")


def _check_task(task: str, known: Sequence[str]) -> None:
    if task == "translate" and set(known) == {"en"}:
        raise InvalidRequestError(
            "this model knows English only and cannot translate; serve a multilingual one",
            param="model",
        )


def _check_context(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _MAX_CONTEXT_CHARS:
        raise InvalidRequestError(
            f"prompt must be a text of at most {_MAX_CONTEXT_CHARS} characters", param="prompt"
        )
    return value


def _check_keywords(value: Any) -> list[str]:
    if value is None:
        return []
    is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not is_list or len(value) > _MAX_KEYWORDS or sum(map(len, value)) > _MAX_CONTEXT_CHARS:
        raise _refuse("keywords", f"a list of at most {_MAX_KEYWORDS} words")
    return list(value)


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "mode": _one_of("mode", _MODES, None),
    "detection": _check_detection,
    "guesses": _flag("guesses"),
    "task": _one_of("task", _TASKS, "transcribe"),
    "context": _check_context,
    "keywords": _check_keywords,
    "temperature": _check_temperature,
    "word_times": _flag("word_times"),
}
_LANGUAGE_CHECKS: dict[str, Callable[[Any, Sequence[str]], Any]] = {
    "language": _check_language,
    "languages": _check_languages,
}
