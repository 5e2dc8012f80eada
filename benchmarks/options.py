"""What every benchmark is told."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """``quick`` shows in seconds that a benchmark works; its figures mean nothing."""

    quick: bool = False
    pipeline: str = "hibari"

    def pick(self, full: int, quick: int) -> int:
        return quick if self.quick else full


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` on uvloop: the load generator shares the machine with the server."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
