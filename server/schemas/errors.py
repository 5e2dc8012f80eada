"""The error envelope, for the API's description."""

from __future__ import annotations

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail
