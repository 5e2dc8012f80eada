"""Who may pass."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import AuthenticationError
from server.auth import OPEN_PATHS, ApiKeys, presented_key, subprotocol_for
from server.ephemeral_keys import EphemeralKeys


def scope(path: str = "/v1/audio/speech", kind: str = "http", **headers: str) -> dict[str, Any]:
    raw = [(k.replace("_", "-").encode(), v.encode("latin-1")) for k, v in headers.items()]
    return {"type": kind, "method": "GET", "path": path, "headers": raw}


@pytest.mark.parametrize("value", [None, "Bearer ", "Bearer anything", "Basic x", "garbage"])
def test_without_keys_everyone_passes(value: str | None) -> None:
    headers = {} if value is None else {"authorization": value}

    ApiKeys(()).check(scope(**headers))


@pytest.mark.parametrize("configured", [(), ("one",)])
def test_a_short_lived_key_that_has_expired_opens_nothing_even_where_none_is_needed(
    configured: tuple[str, ...],
) -> None:
    now = [0.0]
    ephemeral = EphemeralKeys(lambda: now[0])
    value = ephemeral.issue(10, {"type": "realtime"}).value
    keys = ApiKeys(configured, ephemeral)
    session = scope("/v1/realtime", "websocket", authorization=f"Bearer {value}")
    keys.check(session)
    now[0] = 10.0
    with pytest.raises(AuthenticationError, match="expired"):
        keys.check(session)


@pytest.mark.parametrize("key", ["one", "two", "schlüssel"])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER  "])
def test_each_key_opens(key: str, scheme: str) -> None:
    authorization = f"{scheme} {key}".encode().decode("latin-1")

    ApiKeys(("one", "two", "schlüssel")).check(scope(authorization=authorization))


@pytest.mark.parametrize("path", [*sorted(OPEN_PATHS), "/page/main.js"])
def test_probes_pages_and_lists_are_open_to_readers_only(path: str) -> None:
    keys = ApiKeys(("one",))

    keys.check(scope(path))
    with pytest.raises(AuthenticationError):
        keys.check(scope(path) | {"method": "POST"})


@pytest.mark.parametrize(
    "path", ["/v1/models", "/metrics", "/health/", "/healthy", "/v1/none", "/pages"]
)
def test_nothing_else_is_open(path: str) -> None:
    with pytest.raises(AuthenticationError):
        ApiKeys(("one",)).check(scope(path))


def test_a_browsers_websocket_may_bring_its_key_as_a_subprotocol() -> None:
    protocols = "realtime, openai-insecure-api-key.one"

    assert presented_key(scope(kind="websocket", sec_websocket_protocol=protocols)) == b"one"
    assert presented_key(scope(kind="http", sec_websocket_protocol=protocols)) is None


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        ([], None),
        (["openai-insecure-api-key.one"], None),
        (["realtime", "openai-insecure-api-key.one"], "realtime"),
        (["openai-insecure-api-key.one", "realtime", "other"], "realtime"),
    ],
)
def test_a_websocket_is_accepted_without_sending_its_key_back(
    offered: list[str], taken: str | None
) -> None:
    assert subprotocol_for(scope(kind="websocket") | {"subprotocols": offered}) == taken
