"""A server that talks, beside a language model that answers by a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.options import Options
from benchmarks.server_process import ServerProcess, running_server
from tests.language_models import ScriptedLlm, scripted_llm

FIRST_TOKEN_MS, TOKENS_PER_S = 50.0, 45.0
_REPLICA = re.compile(r"replica (\S+) started as process (\d+)")
_STEP = re.compile(r"(\w+) stepped from ([\d.]+) to ([\d.]+):")


@dataclass(frozen=True, slots=True)
class TalkingServer:
    """A server that is ready, and its language model."""

    server: ServerProcess
    llm: ScriptedLlm

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def pids(self) -> dict[str, int]:
        """Its processes by name: ``api``, and each replica of both pipelines."""
        log = self.server.log_path.read_text(errors="replace")
        replicas = {match[1]: int(match[2]) for match in _REPLICA.finditer(log)}
        return {"api": self.server.process.pid, **replicas}

    def steps(self) -> list[Step]:
        """The steps of all stages so far; those of the last second may be missing."""
        return read_steps(self.server.log_path)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a stage, in seconds of ``time.monotonic``."""

    stage: str
    started_at: float
    ended_at: float


@contextmanager
def talking_server(options: Options, reply: str = "") -> Iterator[TalkingServer]:
    """Answers ``reply`` to whatever is said, or else "You said: ..." and the words."""
    with scripted_llm(FIRST_TOKEN_MS, TOKENS_PER_S, reply=reply) as llm:
        environ = {
            "VOXLOOM_THINKER_URL": llm.base_url,
            "VOXLOOM_THINKER_MODEL": "scripted",
            "VOXLOOM_LOG_LEVEL": "debug",
        }
        arguments = ("serve", "--transcribe", "off")
        with running_server(options.pipeline, arguments=arguments, environ=environ) as server:
            yield TalkingServer(server, llm)


def read_steps(log_path: Path) -> list[Step]:
    """What a log at debug level says of steps."""
    found = _STEP.finditer(log_path.read_text(errors="replace"))
    return [Step(match[1], float(match[2]), float(match[3])) for match in found]


def busy_s(steps: list[Step], stages: tuple[str, ...], first: float, last: float) -> float:
    """How long between two times at least one step of these stages was running."""
    spans = sorted(
        (max(step.started_at, first), min(step.ended_at, last))
        for step in steps
        if step.stage in stages and step.started_at < last and step.ended_at > first
    )
    busy, reached = 0.0, first
    for begin, end in spans:
        busy += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return busy
