"""Which addresses audio may be fetched from: hosts that the settings name, where they are public.

A client's word must not have this server speak to what only this server can reach: its own machine,
its network, a cloud's metadata. So a name is looked up once, every address that it has is checked,
and the connection goes to one of these (a second look-up could say something else).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias
from urllib.parse import quote, urlsplit

_PORTS = {"http": 80, "https": 443}
_MAX_URL_CHARS = 4096
_PATH_SAFE = "/%:@!$&'()*+,;=~-._?"
# RFC 6052 and RFC 8215: IPv4 addresses inside of IPv6 ones, for translators.
_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))
# Azure's metadata and its virtual machines' agents: an address that only looks like everybody's.
_CLOUDS_OWN = ipaddress.IPv4Address("168.63.129.16")

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class RefusedUrlError(ValueError):
    """An address that is not fetched; the message completes "the URL ..."."""


class NotPublicError(OSError):
    """A name that leads nowhere, or to what not everybody may reach: not for the client to know."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. ``path`` begins with a slash and has the query."""

    is_tls: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """For the ``Host`` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port == _PORTS["https" if self.is_tls else "http"]
        return host if is_usual else f"{host}:{self.port}"


class AllowedHosts:
    """``patterns``: names such as ``media.example.com``, ``*.example.com`` or ``*``, on the usual
    ports, or with a port of their own (``media.example.com:8443``).
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = [pattern.lower() for pattern in patterns]

    def read(self, url: str) -> Target:
        """Raises ``RefusedUrlError``."""
        if len(url) > _MAX_URL_CHARS or not url.isprintable():
            raise RefusedUrlError(f"must have at most {_MAX_URL_CHARS} printable characters")
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").rstrip("."), parts.port
        except ValueError:
            raise RefusedUrlError("is not a valid one") from None
        if parts.scheme not in _PORTS or not host:
            raise RefusedUrlError("must begin with http:// or https:// and a host")
        if "@" in parts.netloc:
            raise RefusedUrlError("must not hold a user name or a password")
        usual = _PORTS[parts.scheme]
        if not self._allows(host, usual if port is None else port, usual):
            raise RefusedUrlError("has a host that this server does not fetch from")
        path = quote(parts.path or "/", safe=_PATH_SAFE)
        query = f"?{quote(parts.query, safe=_PATH_SAFE)}" if parts.query else ""
        is_tls = parts.scheme == "https"
        return Target(is_tls, host, usual if port is None else port, path + query)

    def _allows(self, host: str, port: int, usual: int) -> bool:
        return any(
            fnmatchcase(f"{host}:{port}", pattern)
            if ":" in pattern
            else port == usual and fnmatchcase(host, pattern)
            for pattern in self._patterns
        )


def check_public(addresses: Sequence[str]) -> str:
    """The first of the addresses that a name has, if all of them are public.

    Raises ``NotPublicError``.
    """
    if not addresses:
        raise NotPublicError("its host has no address")
    private = [one for one in addresses if not is_public(ipaddress.ip_address(one))]
    if private:
        raise NotPublicError(f"its host has the address {private[0]}, which is not public")
    return addresses[0]


def is_public(address: IpAddress) -> bool:
    """Whether everybody may reach an address, and not only this machine or its network."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return is_public(inner)
        if any(address in network for network in _NAT64) or address.is_site_local:
            return False
    if address == _CLOUDS_OWN:
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)
