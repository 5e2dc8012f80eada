"""TLS in front of a server, for clients that speak nothing else."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trustme

from tests.clients.relay import relaying


@contextmanager
def tls_in_front(port: int, folder: Path) -> Iterator[tuple[int, Path]]:
    """A port that speaks TLS for the one given, and the file of the authority to trust."""
    authority = trustme.CA()
    bundle = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(bundle))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with relaying(port, context) as relay:
        yield relay.port, bundle
