"""Who may connect over the network: CURVE keys on our side, an allow-list for the others.

CURVE alone accepts any client that knows the server's public key, which is no secret. What keeps
strangers out is the authenticator (ZAP, ZeroMQ RFC 27): libzmq asks it for each handshake, and its
domain is enforced, so that a handshake fails when the authenticator is not there.
"""

from __future__ import annotations

import logging
from pathlib import Path

import zmq
from zmq.auth.thread import ThreadAuthenticator

from engine.errors import ConfigError
from engine.placement.keys import (
    ServerKeys,
    WorkerKeys,
    new_worker_keys,
    read_allowed_workers,
)

logger = logging.getLogger("voxloom.engine.placement")

_DOMAIN = "voxloom"


class CurveServer:
    """The engine's keys, the keys it gave out itself, and those that a file allows.

    The file is read again at each handshake, so that a key can be added or withdrawn while the
    engine runs; a withdrawn key ends no connection that stands.
    """

    def __init__(self, keys: ServerKeys, allowed_file: Path | None) -> None:
        if allowed_file is not None:
            read_allowed_workers(allowed_file)
        self._keys = keys
        self._allowed_file = allowed_file
        self._issued: dict[str, str] = {}  # public key of a replica → its id
        self._authenticator: ThreadAuthenticator | None = None

    def start(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Answer libzmq's questions about this context's sockets."""
        self._authenticator = ThreadAuthenticator(context)
        self._authenticator.start()
        self._authenticator.configure_curve_callback(_DOMAIN, self)

    def stop(self) -> None:
        if self._authenticator is not None:
            self._authenticator.stop()
            self._authenticator = None

    def secure(self, socket: zmq.Socket[bytes]) -> None:
        """Demand a key on every endpoint to which ``socket`` is bound from now on."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.secret_key.encode())
        socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN.encode())
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def issue(self, replica_id: str) -> WorkerKeys:
        """Keys for one replica, good until ``revoke``."""
        keys = new_worker_keys(self._keys.public_key)
        self._issued[keys.public_key] = replica_id
        return keys

    def revoke(self, replica_id: str) -> None:
        """Let nobody else in with that replica's keys. Unknown ids are ignored."""
        self._issued = {key: owner for key, owner in self._issued.items() if owner != replica_id}

    def callback(self, _domain: str, key: bytes) -> bool:
        """Whether this public key may connect; called on the authenticator's thread."""
        public_key = key.decode("ascii")
        allowed = public_key in self._issued or public_key in self._listed()
        if not allowed:
            logger.warning("a worker with the unknown key %s was refused", public_key)
        return allowed

    def _listed(self) -> frozenset[str]:
        if self._allowed_file is None:
            return frozenset()
        try:
            return read_allowed_workers(self._allowed_file)
        except ConfigError as error:
            logger.error("no worker can join: %s", error)
            return frozenset()
