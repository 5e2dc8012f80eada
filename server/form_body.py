"""From a multipart form with a file to the fields of a schema.

OpenAI's clients send lists as ``name[]`` and objects as ``name[key]``; people with curl send
``name``, several times, or with JSON in it. All of these are understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from engine.errors import InvalidRequestError, UnsupportedMediaTypeError
from server.json_body import quoted

# A request has one file and about a dozen fields, of which lists repeat.
_MAX_FILES = 1
_MAX_FIELDS = 300
# The longest field is a prompt, or a list of keywords.
_MAX_FIELD_BYTES = 256 * 1024
_OBJECT_FIELD = re.compile(r"(\w+)\[(\w+)\]\Z")


@dataclass(slots=True)
class Form:
    """``file`` is open; whoever has the form closes it."""

    file: BinaryIO
    fields: dict[str, Any] = field(default_factory=dict)


async def read_form(request: Request, lists: Collection[str]) -> Form:
    """The form in a request's body; ``lists`` are the fields that hold several values.

    Raises ``UnsupportedMediaTypeError``, ``InvalidRequestError`` or ``PayloadTooLargeError``.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "multipart/form-data":
        raise UnsupportedMediaTypeError(
            f"content-type must be multipart/form-data, got {quoted(media_type)}",
            param="content-type",
        )
    data = await _parse(request)
    try:
        return Form(_take_file(data), _fields(data, lists))
    except BaseException:
        await data.close()
        raise


async def _parse(request: Request) -> FormData:
    try:
        return await request.form(
            max_files=_MAX_FILES, max_fields=_MAX_FIELDS, max_part_size=_MAX_FIELD_BYTES
        )
    except HTTPException as error:
        raise InvalidRequestError(f"the form cannot be read: {error.detail}") from error


def _take_file(data: FormData) -> BinaryIO:
    value = data.get("file")
    if isinstance(value, UploadFile):
        return value.file
    if value is None:
        raise InvalidRequestError(
            "file is missing; it must be an audio file",
            param="file",
            code="missing_required_parameter",
        )
    raise InvalidRequestError("file must be a file, with a filename, not a text", param="file")


def _fields(data: FormData, lists: Collection[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in data.multi_items():
        name = key.removesuffix("[]")
        if name == "file" or not isinstance(value, str):
            continue
        if name in lists:
            fields.setdefault(name, []).extend(_items(value))
        elif match := _OBJECT_FIELD.match(key):
            _object(fields, match[1])[match[2]] = value
        else:
            fields[name] = _structure(value)
    return fields


def _items(value: str) -> list[Any]:
    """A list may come as JSON in one field."""
    parsed = _structure(value) if value.lstrip().startswith("[") else value
    return parsed if isinstance(parsed, list) else [parsed]


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    found = fields.get(name)
    if not isinstance(found, dict):
        found = fields[name] = {}
    return found


def _structure(value: str) -> Any:
    """An object or a list in JSON; anything else is the text that it is."""
    if not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
