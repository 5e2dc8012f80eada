"""API keys. Without a configured key the server is open and any ``Authorization`` is accepted, but
for a short-lived key that has expired: the session that it was made for is not to be had any more.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable

from starlette.types import Scope

from engine.errors import AuthenticationError
from server.ephemeral_keys import EphemeralKeys

# Probes, pages and the two lists that Open WebUI fetches without its key tell nothing worth hiding.
OPEN_PATHS = frozenset(
    {
        "/",
        "/health",
        "/ready",
        "/docs",
        "/openapi.json",
        "/v1/audio/voices",
        "/v1/audio/models",
    }
)
# The files of the page at "/".
_OPEN_FOLDER = "/page/"
REALTIME_PATH = "/v1/realtime"
_OPEN_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# A browser cannot set headers on a WebSocket; OpenAI's clients put the key in a subprotocol.
_KEY_SUBPROTOCOL = b"openai-insecure-api-key."
_ELEVENLABS_HEADER = b"xi-api-key"
# There the first message may bring the key.
_KEY_IN_MESSAGE = re.compile(r"/v1/text-to-speech/[^/]+/(multi-)?stream-input\Z")
_LOCKED = "voxloom.locked"


class ApiKeys:
    """The keys that open the server. Raises ``AuthenticationError`` through ``check``."""

    def __init__(self, keys: Iterable[str], ephemeral: EphemeralKeys | None = None) -> None:
        self._digests = [_digest(key.encode("utf-8")) for key in keys]
        self._ephemeral = ephemeral

    def check(self, scope: Scope) -> None:
        """Raise unless the request may pass. ``scope``'s path must be in its canonical form."""
        if _is_open(scope):
            return
        presented = presented_key(scope)
        if self._has_expired(presented, scope):
            raise AuthenticationError("the short-lived API key has expired")
        if not self._digests:
            return
        if presented is None and _may_follow(scope):
            scope[_LOCKED] = True
            return
        if presented is None:
            raise AuthenticationError(
                "no API key: send the header 'Authorization: Bearer KEY'", code="missing_api_key"
            )
        if not self.holds(presented) and not self._was_issued(presented, scope):
            raise AuthenticationError("the API key is not one of this server's")

    def holds(self, presented: bytes) -> bool:
        """Compare with every key, at the same cost for each: time must not tell which was near."""
        digest = _digest(presented)
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        return any(matches)

    def _was_issued(self, presented: bytes, scope: Scope) -> bool:
        """A short-lived key opens a realtime session, and nothing else."""
        return (
            self._ephemeral is not None
            and _is_session(scope)
            and self._ephemeral.find(presented) is not None
        )

    def _has_expired(self, presented: bytes | None, scope: Scope) -> bool:
        return (
            self._ephemeral is not None
            and _is_session(scope)
            and self._ephemeral.has_expired(presented)
        )


def presented_key(scope: Scope) -> bytes | None:
    """The key in a request's or WebSocket's headers, or None."""
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer" and key.strip():
                return bytes(key.strip())
        if name == _ELEVENLABS_HEADER and value.strip():
            return bytes(value.strip())
        if name == b"sec-websocket-protocol" and scope["type"] == "websocket":
            for protocol in value.split(b","):
                if protocol.strip().startswith(_KEY_SUBPROTOCOL):
                    return bytes(protocol.strip()[len(_KEY_SUBPROTOCOL) :])
    return None


def is_locked(scope: Scope) -> bool:
    """Whether a WebSocket was let through although it has not shown its key."""
    return bool(scope.get(_LOCKED))


def _is_session(scope: Scope) -> bool:
    return bool(scope["type"] == "websocket" and scope["path"] == REALTIME_PATH)


def _may_follow(scope: Scope) -> bool:
    return scope["type"] == "websocket" and _KEY_IN_MESSAGE.match(scope["path"]) is not None


def _is_open(scope: Scope) -> bool:
    path: str = scope["path"]
    is_public = path in OPEN_PATHS or path.startswith(_OPEN_FOLDER)
    return is_public and scope.get("method", "") in _OPEN_METHODS


def subprotocol_for(scope: Scope) -> str | None:
    """The one to accept a WebSocket with: browsers that offer some give up if none is taken.

    A key is never taken: it would be sent back.
    """
    offered: list[str] = scope["subprotocols"]
    key = _KEY_SUBPROTOCOL.decode("ascii")
    return next((name for name in offered if not name.startswith(key)), None)


def _digest(key: bytes) -> bytes:
    """Keys are compared as digests, so that their lengths do not matter."""
    return hashlib.sha256(key).digest()
