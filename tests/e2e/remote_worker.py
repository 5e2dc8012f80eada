"""Engines and workers for the tests of more than one machine: real processes, real sockets."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec

from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from engine.pipeline import PipelineConfig, PlacementKind, load_pipeline
from engine.placement.keys import create_keys

TIMEOUT_S = 120.0
# More audio than is buffered on its way: after its first chunk most of it is still to be made.
TEXT = "one two three four five six seven eight nine ten eleven twelve " * 25


def sine_with(
    placement: PlacementKind, stages: tuple[int, ...], num_replicas: int = 1
) -> PipelineConfig:
    """The tone pipeline with these stages placed elsewhere."""
    pipeline = load_pipeline("sine")
    placed = tuple(
        msgspec.structs.replace(stage, placement=placement, num_replicas=num_replicas)
        if number in stages
        else stage
        for number, stage in enumerate(pipeline.stages)
    )
    return msgspec.structs.replace(pipeline, stages=placed)


def keyed_config(folder: Path, **fields: float) -> EngineConfig:
    """Settings with fresh keys in ``folder``."""
    if not folder.exists():
        create_keys(folder)
    files: dict[str, str | float] = {
        "curve_key_file": str(folder / "server.key"),
        "allowed_workers_file": str(folder / "allowed-workers"),
    }
    return msgspec.convert(files | fields, EngineConfig)


class Worker:
    """``voxloom worker`` as a process of its own."""

    def __init__(
        self, endpoint: str, stage: str, *options: str, version: int | None = None
    ) -> None:
        command = ["worker", "--connect", endpoint, "--stage", stage, *options]
        program = ["-m", "server.cli", *command]
        if version is not None:
            program = ["-c", _WITH_VERSION.format(version=version), *command[1:]]
        self.process = subprocess.Popen(
            [sys.executable, *program], stderr=subprocess.PIPE, text=True
        )

    def read_until(self, text: str) -> None:
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if text in line:
                return
        raise AssertionError(f"no line with {text!r} in:\n{''.join(lines)}")

    def wait(self) -> tuple[int, str]:
        """The exit status and what it wrote on standard error."""
        _, written = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, written

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


# A worker of another version of the protocol.
_WITH_VERSION = """
import sys, engine.messages
engine.messages.PROTOCOL_VERSION = {version}
from worker.main import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def workers(*started: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in started:
            worker.close()


@asynccontextmanager
async def running(
    pipeline: PipelineConfig, config: EngineConfig | None = None
) -> AsyncIterator[AsyncOmniEngine]:
    engine = AsyncOmniEngine(pipeline, config)
    engine.start()
    try:
        yield engine
    finally:
        await engine.shutdown(drain_timeout_s=0)


async def until(look: Callable[[], bool]) -> None:
    """Wait until ``look`` is true."""
    async with asyncio.timeout(TIMEOUT_S):
        while not look():  # noqa: ASYNC110 - the engine has no event for what is asked here
            await asyncio.sleep(0.01)


async def join_endpoint(engine: AsyncOmniEngine) -> str:
    network = engine._orchestrator.network
    await until(lambda: bool(network.control_endpoint))
    return network.control_endpoint


async def speak(
    engine: AsyncOmniEngine,
    request_id: str,
    text: str = TEXT,
    after_first: Callable[[], Awaitable[None]] | None = None,
) -> bytes:
    """The PCM of a text; ``after_first`` runs when its first chunk has come."""
    chunks = []
    outputs = engine.generate(request_id, {"text": text}, final_stage_id=1)
    async for output in outputs:
        if output.audio is not None:
            chunks.append(bytes(output.audio))
            if len(chunks) == 1 and after_first is not None:
                await after_first()
    return b"".join(chunks)
