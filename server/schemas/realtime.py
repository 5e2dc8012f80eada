"""The request of ``POST /v1/realtime/client_secrets``."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from server.json_body import RequestModel

MIN_SECONDS, MAX_SECONDS = 10, 7200


class ExpiresAfter(BaseModel):
    """From when on, and how long, a key is valid."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    anchor: Literal["created_at"] = "created_at"
    seconds: Annotated[StrictInt, Field(ge=MIN_SECONDS, le=MAX_SECONDS)] = 600


class ClientSecretRequest(RequestModel):
    """What the key is for."""

    must_be: ClassVar[dict[str, str]] = {
        "expires_after": '{"anchor": "created_at", "seconds": an integer from '
        f"{MIN_SECONDS} to {MAX_SECONDS}}}",
        "session": "an object, as in session.update",
    }

    expires_after: Annotated[
        ExpiresAfter | None, Field(description="Ten minutes if not given.")
    ] = None
    session: Annotated[
        dict[str, Any] | None,
        Field(description="How a session begins that is opened with the key."),
    ] = None
