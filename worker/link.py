"""A socket to the engine, and word of the moment at which its connection is lost.

A connection over TCP is never made anew by itself: what was on its way would be missing without
anyone knowing. Its loss ends the replica instead, and the engine replays what it had.
"""

from __future__ import annotations

import zmq

from engine.placement.keys import WorkerKeys
from engine.placement.spec import LINK_HEARTBEAT_MS, LINK_TIMEOUT_MS

# Never. (libzmq's own word for that, -1, makes zmq_ctx_term wait for ever now and then after a
# handshake that failed: 4.3.5.)
_RECONNECT_MS = 24 * 3600 * 1000
# The orchestrator's own bound on what waits for one replica; see its shell.
_QUEUE = 10_000
# Which side notices first, and how, depends on timing.
_NO_AGREEMENT = (
    "and this worker do not agree on keys: give --key-file if, and only if, the engine has a"
    " curve_key_file, and with that engine's public_key as its server_key"
)
_REASONS = {
    zmq.Event.DISCONNECTED: "closed the connection",
    zmq.Event.CLOSED: "cannot be reached",
    zmq.Event.HANDSHAKE_FAILED_AUTH: "does not know this worker's key: see allowed_workers_file",
    zmq.Event.HANDSHAKE_FAILED_NO_DETAIL: _NO_AGREEMENT,
    zmq.Event.HANDSHAKE_FAILED_PROTOCOL: _NO_AGREEMENT,
}
_ENDINGS = (zmq.Event.DISCONNECTED, zmq.Event.CLOSED)


class Link:
    """A DEALER socket, connected. ``lost`` says why its connection has ended, once it has.

    Only a ``tcp`` link is watched: on the same host the process at the other end cannot go away
    without this one being told by other means.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoint: str,
        identity: bytes,
        keys: WorkerKeys | None,
    ) -> None:
        self.endpoint = endpoint
        self.lost: str | None = None
        self.has_failed_handshake = False
        self.socket: zmq.Socket[bytes] = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, identity)
        self.socket.setsockopt(zmq.SNDHWM, _QUEUE)
        self.socket.setsockopt(zmq.RCVHWM, _QUEUE)
        self.monitor: zmq.Socket[bytes] | None = None
        if endpoint.startswith("tcp:"):
            self._watch(keys)
        self.socket.connect(endpoint)

    def _watch(self, keys: WorkerKeys | None) -> None:
        self.socket.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MS)
        self.socket.setsockopt(zmq.HEARTBEAT_IVL, LINK_HEARTBEAT_MS)
        self.socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, LINK_TIMEOUT_MS)
        self.socket.setsockopt(zmq.CONNECT_TIMEOUT, LINK_TIMEOUT_MS)
        self.socket.setsockopt(zmq.IPV6, "[" in self.endpoint)
        if keys is not None:
            self.socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.public_key.encode())
            self.socket.setsockopt(zmq.CURVE_SECRETKEY, keys.secret_key.encode())
            self.socket.setsockopt(zmq.CURVE_SERVERKEY, keys.server_key.encode())
        events = 0
        for event in _REASONS:
            events |= event
        self.monitor = self.socket.get_monitor_socket(events)

    def register(self, poller: zmq.Poller) -> None:
        poller.register(self.socket, zmq.POLLIN)
        if self.monitor is not None:
            poller.register(self.monitor, zmq.POLLIN)

    def descriptors(self) -> list[int]:
        """See ``Transport.descriptors``."""
        sockets = [self.socket] if self.monitor is None else [self.socket, self.monitor]
        return [int(socket.getsockopt(zmq.FD)) for socket in sockets]

    def check(self) -> str | None:
        """Why the connection has been lost, if it has; the first reason is the one that counts."""
        if self.monitor is None:
            return None
        # It brings asyncio: a local replica, which watches nothing, starts without it.
        from zmq.utils.monitor import recv_monitor_message

        while self.monitor.poll(0):
            event = zmq.Event(recv_monitor_message(self.monitor)["event"])
            if self.lost is None:
                self.lost = f"the engine at {self.endpoint} {_REASONS[event]}"
                self.has_failed_handshake = event not in _ENDINGS
        return self.lost

    def close(self, linger_ms: int) -> None:
        self.socket.disable_monitor()
        self.socket.close(linger_ms)
