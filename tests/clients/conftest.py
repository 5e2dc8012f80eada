"""Servers that the client tests share: one that speaks English, and small ones with limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.clients.speech import open_client
from tests.e2e.server_process import ServerProcess, serving

KEY = "sk-only-this-one"
# Nobody reads the servers' logs while they run: one that is long would fill its pipe.
QUIET = {"VOXLOOM_ACCESS_LOG": "false"}
ONE_AT_A_TIME = {"VOXLOOM_ENGINE_MAX_RUNNING": "1", "VOXLOOM_ENGINE_MAX_WAITING": "0"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """The default pipeline, open to everybody."""
    with serving(environ=QUIET) as server:
        yield server


@pytest.fixture(scope="session")
def locked_server() -> Iterator[ServerProcess]:
    """Tones, for those who have ``KEY``."""
    with serving("--pipeline", "sine", environ=QUIET | {"VOXLOOM_API_KEY": KEY}) as server:
        yield server


@pytest.fixture(scope="session")
def narrow_server() -> Iterator[ServerProcess]:
    """Tones, one request at a time."""
    with serving("--pipeline", "sine", environ=QUIET | ONE_AT_A_TIME) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[OpenAI]:
    """openai-python, which asks ``server`` and does not try again."""
    with open_client(server) as client:
        yield client


@pytest.fixture
def environ(server: ServerProcess) -> dict[str, str]:
    """What a user sets to have an OpenAI client ask ``server``."""
    address = f"http://127.0.0.1:{server.port}/v1"
    others = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return others | {"OPENAI_BASE_URL": address}
