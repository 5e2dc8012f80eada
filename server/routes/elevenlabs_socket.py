"""ElevenLabs' WebSockets, for one text at a time or for several side by side."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from fastapi import APIRouter
from starlette.websockets import WebSocket, WebSocketDisconnect

from engine.errors import VoxloomError
from server.auth import ApiKeys, is_locked, subprotocol_for
from server.catalog import ModelCatalog
from server.context import context_of
from server.elevenlabs_socket import ElevenLabsSocket, read_manner
from server.sessions.elevenlabs_events import close_code, error_event
from server.sessions.elevenlabs_session import close_reason
from server.speech_stream import SpeechService


def elevenlabs_socket_routes(service: SpeechService, catalog: ModelCatalog) -> APIRouter:
    """The routes, bound to their service."""
    router = APIRouter()
    keys = ApiKeys(service.settings.api_keys)

    def unlock(key: str) -> bool:
        return keys.holds(key.encode("utf-8"))

    async def serve(websocket: WebSocket, voice_id: str, *, is_multi: bool) -> None:
        await websocket.accept(subprotocol_for(websocket.scope))
        try:
            manner, inactivity_s = read_manner(
                websocket.query_params,
                voice_id,
                service,
                catalog,
                is_multi=is_multi,
                unlock=unlock if is_locked(websocket.scope) else None,
            )
        except VoxloomError as error:
            await _refuse(websocket, error, service.settings.socket_config_timeout_s)
            return
        socket = ElevenLabsSocket(
            service,
            context_of(websocket.scope),
            websocket.receive,
            websocket.send,
            manner,
            inactivity_s,
        )
        await socket.run()

    @router.websocket("/v1/text-to-speech/{voice_id}/stream-input")
    async def stream_input(websocket: WebSocket, voice_id: str) -> None:
        await serve(websocket, voice_id, is_multi=False)

    @router.websocket("/v1/text-to-speech/{voice_id}/multi-stream-input")
    async def multi_stream_input(websocket: WebSocket, voice_id: str) -> None:
        await serve(websocket, voice_id, is_multi=True)

    return router


async def _refuse(websocket: WebSocket, error: VoxloomError, patience_s: float) -> None:
    """Answer the first message with what is wrong, and close.

    Clients read messages and close codes, not the handshake; LiveKit's waits for ever if it is
    closed before it has sent anything.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(patience_s):
            if (await websocket.receive())["type"] == "websocket.disconnect":
                return
    with suppress(WebSocketDisconnect):
        await websocket.send_text(json.dumps(error_event(error)))
        await websocket.close(close_code(error), close_reason(error.message))
