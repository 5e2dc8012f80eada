"""Starts scripted language models for tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScriptedLlm:
    """A running one."""

    base_url: str

    def asked(self) -> list[dict[str, Any]]:
        """The bodies of the requests that it has had, each with its ``key``."""
        return self._get("asked")

    def times(self) -> list[dict[str, Any]]:
        """When each of them came and when its tokens left, in seconds of ``time.monotonic``."""
        return self._get("times")

    def go(self) -> None:
        """Let it go on where its script has it wait."""
        self._get("go")

    def reads(self, num_tokens: int, server: str = "openai") -> None:
        """Refuse more tokens, of four characters each, as that server would; 0: read all."""
        self._get(f"reads/{num_tokens}/{server}")

    def _get(self, path: str) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.base_url}/{path}", timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found


@contextlib.contextmanager
def scripted_llm(
    first_token_ms: float = 0, tokens_per_s: float = 0, num_times: int = 1, reply: str = ""
) -> Iterator[ScriptedLlm]:
    command = [sys.executable, "-m", "tests.scripted_llm", "0"]
    command += [str(first_token_ms), str(tokens_per_s), str(num_times), reply]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().split()[1]
        yield ScriptedLlm(f"http://127.0.0.1:{port}/v1")
    finally:
        process.kill()
        process.communicate()
