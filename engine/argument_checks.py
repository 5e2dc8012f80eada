"""Checks of a caller's arguments: each error names the argument and what is allowed.

Whatever passes here can travel: a message that a replica could not read would end that replica, and
with it everybody else's requests on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from engine.errors import InvalidRequestError
from engine.messages import (
    INTERACTION_KINDS,
    CompanionSpec,
    Prompt,
    SamplingParams,
    StageSubmissionMessage,
)
from engine.wire import MessageDecodeError, decode_value, encode_value

# Ids travel in every message and in headers; a UUID with a prefix has about 40 characters.
_MAX_REQUEST_ID_CHARS = 256
MAX_INT64 = 2**63 - 1
MIN_INT64 = -(2**63)


def refuse(name: str, allowed: str, value: Any) -> InvalidRequestError:
    """The error that says what is allowed, and what was given."""
    given = repr(value)[:64] if isinstance(value, int | float | str) else type(value).__name__
    return InvalidRequestError(f"{name} must be {allowed}, got {given}", param=name)


def check_request_id(request_id: object) -> None:
    if not isinstance(request_id, str) or not 0 < len(request_id) <= _MAX_REQUEST_ID_CHARS:
        raise InvalidRequestError(
            f"request_id must be a text of 1 to {_MAX_REQUEST_ID_CHARS} characters",
            param="request_id",
        )


def check_int(name: str, value: object) -> None:
    """An integer of 64 bits."""
    if not is_int(value) or not MIN_INT64 <= value <= MAX_INT64:  # type: ignore[operator]
        raise refuse(name, "a 64-bit integer", value)


def check_time(name: str, value: object) -> None:
    """A finite number of seconds, or None."""
    if value is None:
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]
        raise refuse(name, "a finite number of seconds", value)


def check_rank(value: object) -> None:
    if value is not None and (not is_int(value) or value < 0):  # type: ignore[operator]
        raise refuse("data_parallel_rank", "an integer of at least 0", value)


def check_final_stage(value: object, last: int) -> None:
    if not is_int(value) or not 0 <= value <= last:  # type: ignore[operator]
        raise refuse("final_stage_id", f"between 0 and {last}", value)


def check_first_stage(value: object, final_stage_id: int) -> None:
    if not is_int(value) or not 0 <= value <= final_stage_id:  # type: ignore[operator]
        raise refuse("first_stage_id", f"between 0 and {final_stage_id}", value)


def check_output_stages(
    given: Sequence[int] | None, first_stage_id: int, final_stage_id: int
) -> list[int]:
    """The stages whose output the caller wants, sorted; by default the final one."""
    if given is None:
        return [final_stage_id]
    if not given or any(not is_int(i) or not first_stage_id <= i <= final_stage_id for i in given):
        raise InvalidRequestError(
            f"final_output_stage_ids must hold stage ids from {first_stage_id} to "
            f"{final_stage_id}, got {list(given)}",
            param="final_output_stage_ids",
        )
    return sorted(set(given))


def check_sampling(params: object) -> None:
    """Sampling parameters whose every field has its type."""
    if not isinstance(params, SamplingParams):
        raise refuse("sampling_params_list", "a list of SamplingParams", params)
    if params.seed is not None:
        check_int("seed", params.seed)
    check_travels(params, SamplingParams, "sampling_params_list")


def check_trace_headers(headers: object) -> dict[str, str]:
    """The headers as a new dict of texts."""
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise refuse("trace_headers", "a mapping of header names to texts", headers)
    checked = dict(headers)
    check_travels(checked, dict[str, str], "trace_headers")
    return checked


def check_arguments(kind: object, arguments: object) -> None:
    """The arguments of an interaction; those of an update are the model family's to check."""
    if not isinstance(kind, str) or kind not in INTERACTION_KINDS:
        known = ", ".join(INTERACTION_KINDS)
        raise InvalidRequestError(
            f"unknown interaction {str(kind)[:64]!r}; known: {known}", param="kind"
        )
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise refuse("arguments", "a mapping of names to values", arguments)
    if kind == "interrupt":
        _check_played_ms(arguments)
    elif kind != "update" and arguments:
        raise InvalidRequestError(
            f"{kind} takes no arguments, got {', '.join(sorted(arguments))}", param="arguments"
        )


def _check_played_ms(arguments: Mapping[str, Any]) -> None:
    played_ms = arguments.get("played_ms", 0)
    is_number = isinstance(played_ms, int | float) and not isinstance(played_ms, bool)
    if set(arguments) - {"played_ms"} or not is_number or not 0 <= played_ms < math.inf:
        raise InvalidRequestError(
            "interrupt takes played_ms, a number of at least 0, and nothing else",
            param="arguments",
        )


def check_submission(submission: StageSubmissionMessage) -> None:
    """Refuse what no message can carry, before anything is queued."""
    check_travels(submission.prompt, Prompt, "prompt_transform_func")
    for companion in submission.companions:
        check_travels(companion, CompanionSpec, "prompt_expand_func")


def check_travels(value: Any, kind: Any, name: str) -> None:
    """``value`` can be sent to a stage, and comes out there as a ``kind``.

    It is wrapped as deep as in any message, since nesting has a limit.
    """
    try:
        frames = encode_value({"": {"": {"": value}}})
        decode_value(frames, dict[str, dict[str, dict[str, kind]]])
    except (TypeError, ValueError, OverflowError, RecursionError, MessageDecodeError) as error:
        is_text = isinstance(error, UnicodeEncodeError)
        reason = "it holds text that is not valid Unicode" if is_text else str(error)
        message = f"{name} cannot be sent to a stage: {reason}"
        raise InvalidRequestError(message, param=name) from error


def is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
