"""The page's files, as a browser and a proxy see them. What it does: tests/clients/test_page.py."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.app import create_app
from server.engine_life import ServedEngine
from server.settings import ServerSettings
from tests.server.asgi_client import Answer, request
from tests.server.fake_engine import FakeEngine
from tests.server.talk.fake_cascade import FakeCascade, Plot

FOLDER = Path(__file__).parents[3] / "server" / "page"
NAMES = sorted(path.name for path in FOLDER.iterdir())
INDEX = (FOLDER / "index.html").read_text(encoding="utf-8")
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}


def get(path: str, **headers: str) -> Answer:
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    app = create_app(FakeEngine(), ServerSettings(access_log=False, api_keys=("secret",)))
    return request(app, "GET", path, headers=named)


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_served_to_everybody_with_its_type(name: str) -> None:
    answer = get("/" if name == "index.html" else f"/page/{name}")

    assert (answer.status, answer.body) == (200, (FOLDER / name).read_bytes())
    assert answer.headers["content-type"].startswith(TYPES[Path(name).suffix])
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_the_policy_lets_nothing_in_from_elsewhere_and_nothing_inline() -> None:
    policy = get("/").headers["content-security-policy"]

    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.pop("default-src") == "'none'"
    assert set(rules.values()) == {"'self'", "'none'"}


@pytest.mark.parametrize("known", ["{}", "W/{}", '"other", {}'])
def test_a_file_that_the_browser_has_is_not_sent_again(known: str) -> None:
    first = get("/page/main.js")
    again = get("/page/main.js", if_none_match=known.format(first.headers["etag"]))

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]


def test_a_file_that_has_changed_is_sent() -> None:
    answer = get("/page/main.js", if_none_match=get("/page/style.css").headers["etag"])

    assert answer.status == 200


@pytest.mark.parametrize("path", ["/page/index.html", "/page/../app.py", "/page/x.js", "/page//"])
def test_nothing_else_is_in_the_folder(path: str) -> None:
    assert get(path).status == 404


def test_the_folder_itself_is_nothing() -> None:
    assert get("/page/").status == 401


def test_every_address_is_relative_so_that_the_page_works_behind_a_prefix() -> None:
    addresses = re.findall(r'(?:href|src)="([^"]*)"', INDEX)

    assert len(addresses) > 5
    assert all(not address.startswith("/") and "//" not in address for address in addresses)


def test_every_file_that_the_page_or_its_modules_name_is_there() -> None:
    named = {Path(name).name for name in re.findall(r'"page/([^"]+)"', INDEX)}
    for path in FOLDER.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r'(?:from "\./|new URL\(")([^"/]+\.js)"', text))

    assert named | {"index.html"} == set(NAMES)


@pytest.mark.parametrize("talker", [None, ServedEngine(FakeCascade(Plot()))])
def test_it_can_ask_whether_the_server_talks(talker: ServedEngine | None) -> None:
    settings = ServerSettings(access_log=False, api_keys=("secret",))
    answer = request(create_app(FakeEngine(), settings, None, talker), "GET", "/page/talk")

    voices = [voice["id"] for voice in answer.json()["voices"]]
    assert answer.json()["talks"] == (talker is not None)
    assert voices == ([] if talker is None else ["anna"])
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".js", ".css"))])
def test_files_are_small(name: str) -> None:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()

    assert len(lines) < 400
