"""``WS /v1/realtime`` and ``POST /v1/realtime/client_secrets``."""

from __future__ import annotations

import json
import time
from typing import Any

from fastapi import APIRouter
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Scope
from starlette.websockets import WebSocket

from engine.errors import InvalidRequestError, NotFoundError
from server.auth import presented_key, subprotocol_for
from server.context import context_of
from server.engine_life import ServedEngine
from server.ephemeral_keys import EphemeralKeys
from server.json_body import read_model
from server.schemas.errors import ErrorBody
from server.schemas.realtime import ClientSecretRequest, ExpiresAfter
from server.sessions.realtime.checks import optional, text
from server.sessions.realtime.session import RealtimeSession
from server.sessions.realtime.spec import SessionSpec
from server.talk.abilities import TalkAbilities
from server.talk.realtime_socket import RealtimeSocket
from server.talk.service import TalkService, no_recogniser

_ERRORS = (400, 401, 404, 413, 415, 500, 503)
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The key, when it expires, and the session that it opens."},
    **{status: {"model": ErrorBody} for status in _ERRORS},
}
_REQUEST_BODY = {
    "requestBody": {
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/ClientSecretRequest"}}
        }
    }
}
# OpenAI's bound on a session.
_LIFETIME_S = 3600.0
_MAX_MODEL_CHARS = 256
# Ten thousand keys of this size are 640 MB, and nobody has so many users within minutes.
_MAX_SESSION_CHARS = 64_000
_SUBPROTOCOL = "realtime"


class RealtimeDesk:
    """Opens sessions, and hands out the keys for them."""

    def __init__(self, service: TalkService, keys: EphemeralKeys) -> None:
        self._service = service
        self._keys = keys
        self._abilities = TalkAbilities(service.engine, service.known_recogniser)

    def open_session(self, scope: Scope) -> RealtimeSession:
        """A session as the address, and the key, say. Raises ``InvalidRequestError``."""
        query = QueryParams(scope["query_string"])
        issued = self._keys.find(presented_key(scope))
        model, initial = query.get("model", ""), None
        kind = "transcription" if query.get("intent") == "transcription" else "realtime"
        if issued is not None:
            # What the key was made for wins over the address that it is used at.
            initial = dict(issued.session)
            kind, model = str(initial["type"]), str(initial.get("model") or model)
        return self._session(kind, model, initial)

    def issue(self, request: ClientSecretRequest) -> dict[str, Any]:
        """The answer to a request for a key. Raises ``InvalidRequestError``."""
        session = {"type": "realtime"} | (request.session or {})
        if len(json.dumps(session)) > _MAX_SESSION_CHARS:
            raise InvalidRequestError(
                f"session may hold at most {_MAX_SESSION_CHARS} characters", param="session"
            )
        kind = "transcription" if session["type"] == "transcription" else "realtime"
        model = optional(text(_MAX_MODEL_CHARS))(session.get("model"), "session.model")
        opened = self._session(kind, model or "", session)
        opened.config.update(session)
        expires = request.expires_after or ExpiresAfter()
        key = self._keys.issue(expires.seconds, session)
        return {
            "value": key.value,
            "expires_at": int(key.expires_at),
            "session": opened.config.to_json(),
        }

    def _session(self, kind: str, model: str, initial: dict[str, Any] | None) -> RealtimeSession:
        engine, stages = self._service.engine, self._service.stages
        if kind == "transcription" and not self._service.writes_down:
            raise no_recogniser()
        spec = SessionSpec(
            model=model[:_MAX_MODEL_CHARS] or engine.pipeline.name,
            voice=engine.voices[0].id,
            kind=kind,
            lifetime_s=_LIFETIME_S,
            expires_at=int(time.time() + _LIFETIME_S),
            initial=initial,
            model_hears=stages.hears_itself,
        )
        return RealtimeSession(spec, self._abilities)


def realtime_routes(
    served: ServedEngine | None, service: TalkService | None, keys: EphemeralKeys
) -> APIRouter:
    """The routes, bound to their service; without one they say how to get it."""
    router = APIRouter()
    desk = None
    if service is not None and service.stages.is_live:
        desk = RealtimeDesk(service, keys)
    missing = no_cascade if service is None else no_live_ear

    @router.websocket("/v1/realtime")
    async def talk(websocket: WebSocket) -> None:
        if desk is None or service is None or served is None:
            raise missing()
        await served.ready()
        session = desk.open_session(websocket.scope)
        offered: list[str] = websocket.scope["subprotocols"]
        chosen = _SUBPROTOCOL if _SUBPROTOCOL in offered else subprotocol_for(websocket.scope)
        await websocket.accept(chosen)
        context = context_of(websocket.scope)
        await RealtimeSocket(service, session, context, websocket.receive, websocket.send).run()

    @router.post(
        "/v1/realtime/client_secrets",
        summary="A short-lived key for a realtime session",
        response_class=JSONResponse,
        responses=_RESPONSES,
        openapi_extra=_REQUEST_BODY,
    )
    async def create_client_secret(request: Request) -> Response:
        if desk is None:
            raise missing()
        body = await read_model(request, ClientSecretRequest)
        return JSONResponse(desk.issue(body))

    return router


def no_cascade() -> NotFoundError:
    """What a server without a language model answers."""
    return NotFoundError(
        "this server has no language model to talk to: install 'voxloom[cascade]', set "
        "VOXLOOM_THINKER_URL and VOXLOOM_THINKER_MODEL, and start it again",
        code="no_cascade",
    )


def no_live_ear() -> NotFoundError:
    """What a server answers whose model hears messages, and no live stream."""
    return NotFoundError(
        "this server's model hears whole messages: ask POST /v1/chat/completions, or put a stage "
        "named vad in front of its pipeline, as those that ship have it",
        code="no_realtime",
    )
