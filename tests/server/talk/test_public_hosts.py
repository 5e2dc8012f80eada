"""What may be fetched, and what leads to where only this server may go."""

from __future__ import annotations

import ipaddress

import pytest

from server.talk.public_hosts import (
    AllowedHosts,
    NotPublicError,
    RefusedUrlError,
    check_public,
    is_public,
)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("168.63.129.16", False),
        ("100.64.0.1", False),
        ("192.0.0.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1", False),
        ("fe80::1%2", False),
        ("fc00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b:1::1", False),
        ("2002:7f00:1::", False),
        ("2001:db8::1", False),
    ],
)
def test_an_address_is_public_if_everybody_may_reach_it(address: str, expected: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is expected


def test_one_private_address_among_several_is_enough() -> None:
    assert check_public(["93.184.216.34", "2606:2800:220:1::1"]) == "93.184.216.34"
    with pytest.raises(NotPublicError, match=r"127\.0\.0\.1, which is not public"):
        check_public(["93.184.216.34", "127.0.0.1"])
    with pytest.raises(NotPublicError, match="no address"):
        check_public([])


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("http://media.example.com/a.wav", "media.example.com", "/a.wav"),
        ("https://MEDIA.example.com./a b.wav?x=ä#y", "media.example.com", "/a%20b.wav?x=%C3%A4"),
        ("https://a.cdn.example.org", "a.cdn.example.org", "/"),
        ("http://media.example.com:80/", "media.example.com", "/"),
        ("http://other.example.net:8080/", "other.example.net:8080", "/"),
    ],
)
def test_a_url_is_taken_apart(url: str, authority: str, path: str) -> None:
    hosts = AllowedHosts(["media.example.com", "*.cdn.example.org", "other.example.net:8080"])
    target = hosts.read(url)
    assert (target.authority, target.path) == (authority, path)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "file:///etc/passwd",
        "ftp://media.example.com/a.wav",
        "//media.example.com/a.wav",
        "http://",
        "http:///a.wav",
        "http://media.example.com:99999/",
        "http://[::1",
        "http://user@media.example.com/",
        "http://media.example.com@127.0.0.1/",
        "http://media.example.com:8080/",
        "http://media.example.com.evil.example/",
        "http://evil.example/media.example.com",
        "http://media.example.com\\@evil.example/",
        "http://media.example.com/\r\nHost: x",
        "http://cdn.example.org/",
        "http://127.0.0.1/",
        "http://media.example.com/" + "a" * 5000,
    ],
)
def test_what_is_not_allowed_is_refused(url: str) -> None:
    with pytest.raises(RefusedUrlError):
        AllowedHosts(["media.example.com", "*.cdn.example.org"]).read(url)


def test_all_hosts_are_still_on_the_usual_ports_only() -> None:
    hosts = AllowedHosts(["*"])
    assert hosts.read("https://anything.example/").port == 443
    with pytest.raises(RefusedUrlError):
        hosts.read("http://anything.example:6379/")
