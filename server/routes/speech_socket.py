"""``WS /v1/audio/speech/stream``: text in while it is being written, audio out while it is made."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.websockets import WebSocket

from server.auth import subprotocol_for
from server.catalog import ModelCatalog
from server.context import context_of
from server.speech_socket import SpeechSocket, new_session
from server.speech_stream import SpeechService


def speech_socket_routes(service: SpeechService, catalog: ModelCatalog) -> APIRouter:
    """The route, bound to its service."""
    router = APIRouter()

    @router.websocket("/v1/audio/speech/stream")
    async def stream_speech(websocket: WebSocket) -> None:
        await websocket.accept(subprotocol_for(websocket.scope))
        context = context_of(websocket.scope)
        session = new_session(service, catalog)
        socket = SpeechSocket(service, context, websocket.receive, websocket.send, session)
        await socket.run()

    return router
