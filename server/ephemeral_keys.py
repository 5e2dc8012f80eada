"""Keys that a server's owner hands to browsers: short-lived, for realtime sessions and no more."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

PREFIX = "ek_"
# The oldest goes first: a client that asks for keys without end loses its own.
_MAX_KEYS = 10_000
# How many that have expired are told from those that were never issued: 32 bytes of each.
_MAX_EXPIRED = 100_000


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """``expires_at`` is Unix time. ``session``: how a session begins that is opened with it."""

    value: str
    expires_at: float
    session: dict[str, Any]


class EphemeralKeys:
    """The keys that were issued, in memory: after a restart there are none."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys: OrderedDict[bytes, IssuedKey] = OrderedDict()
        self._expired: OrderedDict[bytes, None] = OrderedDict()

    def issue(self, seconds: float, session: dict[str, Any]) -> IssuedKey:
        """A new key for so many seconds."""
        self._drop_expired()
        key = IssuedKey(PREFIX + secrets.token_hex(24), self._clock() + seconds, session)
        self._keys[_digest(key.value.encode())] = key
        while len(self._keys) > _MAX_KEYS:
            self._keys.popitem(last=False)
        return key

    def find(self, presented: bytes | None) -> IssuedKey | None:
        """The key, if it was issued here and is still valid.

        Digests are looked up, so that the time it takes tells nothing of the keys.
        """
        if presented is None:
            return None
        key = self._keys.get(_digest(presented))
        return key if key is not None and key.expires_at > self._clock() else None

    def has_expired(self, presented: bytes | None) -> bool:
        """Whether the key was issued here, and is valid no more."""
        if presented is None:
            return False
        digest = _digest(presented)
        key = self._keys.get(digest)
        return digest in self._expired if key is None else key.expires_at <= self._clock()

    def _drop_expired(self) -> None:
        now = self._clock()
        for digest in [d for d, key in self._keys.items() if key.expires_at <= now]:
            del self._keys[digest]
            self._expired[digest] = None
        while len(self._expired) > _MAX_EXPIRED:
            self._expired.popitem(last=False)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
