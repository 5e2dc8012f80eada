"""An address at which nobody listens, for tests of what happens then."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A TCP port of 127.0.0.1 that refuses connections.

    It is bound by a socket that does not listen, so that no other program is given it meanwhile.
    """
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield int(taken.getsockname()[1])
