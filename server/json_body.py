"""From a request's bytes to a validated schema, with errors that name the field.

The steps are apart so that WebSocket messages can use them too.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request

from engine.errors import InvalidRequestError, UnsupportedMediaTypeError

_JSON_TYPES = ("application/json", "text/json")
_MAX_QUOTED_CHARS = 60
_MAX_DEPTH = 100


class RequestModel(BaseModel):
    """A JSON object that a client sends. Fields that it does not know are ignored.

    ``must_be`` says for each field what is allowed; it ends up in the error message.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    must_be: ClassVar[dict[str, str]] = {}


Model = TypeVar("Model", bound=RequestModel)


async def read_model(request: Request, kind: type[Model]) -> Model:
    """The request's body as a ``kind``.

    Raises ``UnsupportedMediaTypeError``, ``InvalidRequestError`` or ``PayloadTooLargeError``.
    """
    check_content_type(request.headers.get("content-type"))
    return validate(decode_object(await request.body()), kind)


def check_content_type(value: str | None) -> None:
    """Let JSON pass, and a body that says nothing of its type."""
    if not value:
        return
    media_type = value.partition(";")[0].strip().lower()
    if media_type not in _JSON_TYPES and not media_type.endswith("+json"):
        raise UnsupportedMediaTypeError(
            f"content-type must be application/json, got {quoted(media_type)}", param="content-type"
        )


def decode_object(data: bytes, what: str = "the body") -> dict[str, Any]:
    """The JSON object in ``data`` (UTF-8, a byte order mark allowed); errors call it ``what``."""
    try:
        value = json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{what} is not UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise InvalidRequestError(
            f"{what} is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InvalidRequestError(f"{what} is not valid JSON: it is nested too deeply") from error
    except ValueError as error:
        # Python refuses to read integers of more than some thousand digits.
        raise InvalidRequestError(f"{what} is not valid JSON: a number is too long") from error
    _check_depth(value, what)
    if not isinstance(value, dict):
        raise InvalidRequestError(f"{what} must be a JSON object, got {type(value).__name__}")
    return value


def _check_depth(value: object, what: str) -> None:
    """Python's own tools for nested values give up at some hundred levels, here and elsewhere."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise InvalidRequestError(f"{what} is not valid JSON: it is nested too deeply")


def validate(data: dict[str, Any], kind: type[Model]) -> Model:
    """``data`` as a ``kind``. The error is about the first field that is wrong."""
    for name in kind.model_fields:
        _check_unicode(name, data.get(name))
    if kind.model_config.get("extra") == "allow":
        for name in data:
            # Such a field is passed on under its name.
            _check_unicode(f"the name of the field {quoted(name)}", name, quoted(name)[1:-1])
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        param = str(first["loc"][0]) if first["loc"] else None
        raise _field_error(kind, param, first["type"], first["input"]) from None


def quoted(value: object) -> str:
    """A client's value, printable and short enough to send back."""
    text = ascii(value) if not isinstance(value, (dict, list)) else type(value).__name__
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}..."


def _field_error(
    kind: type[RequestModel], param: str | None, problem: str, value: object
) -> InvalidRequestError:
    allowed = kind.must_be.get(param or "", "valid")
    if problem == "missing":
        return InvalidRequestError(
            f"{param} is missing; it must be {allowed}",
            param=param,
            code="missing_required_parameter",
        )
    return InvalidRequestError(f"{param} must be {allowed}, got {quoted(value)}", param=param)


def _check_unicode(name: str, value: object, param: str | None = None) -> None:
    """JSON can carry half of a surrogate pair, which is no text and cannot be sent on."""
    if not isinstance(value, str):
        return
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"{name} must be well-formed Unicode, but holds a lone surrogate at character "
            f"{error.start}",
            param=param or name,
        ) from error


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError(f"{name} is not a JSON number", name, 0)
