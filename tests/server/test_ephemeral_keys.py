"""Short-lived keys: what they open, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server import ephemeral_keys
from server.app import create_app
from server.engine_life import ServedEngine
from server.ephemeral_keys import EphemeralKeys
from server.settings import ServerSettings
from tests.server.asgi_client import post_json, request
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, telling

PATH = "/v1/realtime/client_secrets"
OWNER = {"authorization": "Bearer owner"}


def app(**settings: Any) -> Any:
    cascade = ServedEngine(FakeCascade(telling("Hi.")))
    return create_app(FakeEngine(), ServerSettings(**settings), None, cascade)


def test_a_key_ends_when_its_time_is_up() -> None:
    now = [0.0]
    keys = EphemeralKeys(lambda: now[0])
    key = keys.issue(60, {"type": "realtime"})
    assert key.value.startswith("ek_")
    now[0] = 59.9
    assert keys.find(key.value.encode()) == key
    now[0] = 60.0
    assert keys.find(key.value.encode()) is None
    assert keys.find(b"ek_guess") is None
    assert keys.find(None) is None
    assert keys.has_expired(key.value.encode())
    assert not keys.has_expired(b"ek_guess")
    assert not keys.has_expired(None)


def test_expired_keys_are_remembered_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ephemeral_keys, "_MAX_EXPIRED", 2)
    now = [0.0]
    keys = EphemeralKeys(lambda: now[0])
    issued = [keys.issue(60, {}).value.encode() for _ in range(3)]
    now[0] = 60.0
    assert [keys.has_expired(key) for key in issued] == [True, True, True]
    keys.issue(60, {})
    assert [keys.has_expired(key) for key in issued] == [False, True, True]


def test_the_oldest_key_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ephemeral_keys, "_MAX_KEYS", 2)
    keys = EphemeralKeys()
    issued = [keys.issue(60, {}) for _ in range(3)]
    found = [keys.find(key.value.encode()) is not None for key in issued]
    assert found == [False, True, True]


def test_a_key_comes_with_the_session_that_it_opens() -> None:
    session = {"type": "realtime", "instructions": "Be brief.", "model": "m"}
    body = {"expires_after": {"anchor": "created_at", "seconds": 120}, "session": session}
    answer = post_json(app(), PATH, body)
    shown = answer.json()
    assert answer.status == 200
    assert shown["value"].startswith("ek_")
    assert shown["session"]["instructions"] == "Be brief."
    assert shown["session"]["model"] == "m"
    assert shown["session"]["object"] == "realtime.session"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"expires_after": {"seconds": 5}}, "expires_after"),
        ({"expires_after": {"seconds": 7201}}, "expires_after"),
        ({"session": []}, "session"),
        ({"session": {"type": "other"}}, "session.type"),
        ({"session": {"audio": {"output": {"voice": "zoe"}}}}, "session.audio.output.voice"),
    ],
)
def test_a_bad_wish_is_named(body: dict[str, Any], param: str) -> None:
    answer = post_json(app(), PATH, body)
    assert (answer.status, answer.error["param"]) == (400, param)


def test_only_the_owner_gets_keys_and_they_open_nothing_else() -> None:
    locked = app(api_keys=("owner",))
    assert request(locked, "POST", PATH).status == 401
    key = post_json(locked, PATH, {}, headers=OWNER).json()["value"]
    with_key = {"authorization": f"Bearer {key}"}
    assert request(locked, "GET", "/v1/models", headers=with_key).status == 401


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"model": "\ud800"}, "session.model"),
        ({"model": {"id": "x"}}, "session.model"),
        ({"tracing": {"\ud800": 1}}, "session.tracing"),
        ({"audio": {"input": {"noise_reduction": float("inf")}}}, "session.audio.input"),
    ],
)
def test_what_cannot_be_shown_again_gets_no_key(session: dict[str, Any], param: str) -> None:
    body = json.dumps({"session": session}).replace("Infinity", "1e999").encode()
    headers = {"content-type": "application/json"}
    answer = request(app(), "POST", PATH, body=body, headers=headers)
    assert answer.status == 400
    assert answer.error["param"].startswith(param)
