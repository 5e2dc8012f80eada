"""A stage 0 that fails on command: what a word says happens to its replica or request."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

from engine.messages import StageRequest
from worker.models.sine.notes import NotesStage
from worker.stage_model import RowStatus, StageContext, StepOutput


class FaultyStage(NotesStage):
    """``die`` and, when it is added, ``burn`` kill the process, ``hang`` stops it.

    ``raise`` and ``memory`` fail the request in its step, ``refuse`` when it is added.
    """

    def step(self, batch: Sequence[str]) -> StepOutput:
        commands = {rid: self._next_word(rid) for rid in batch}
        if "die" in commands.values():
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in commands.values():
            os.kill(os.getpid(), signal.SIGSTOP)
        output = super().step(batch)
        for request_id, word in commands.items():
            if word == "raise":
                output.rows[request_id] = RowStatus(error=RuntimeError("on command"))
            elif word == "memory":
                output.rows[request_id] = RowStatus(error=MemoryError("on command"))
        return output

    def _next_word(self, request_id: str) -> str:
        words = self._rows[request_id].words
        return words[0].text if words else ""

    def add(self, request: StageRequest) -> None:
        if "refuse" in request.prompt["text"]:
            raise ValueError("on command")
        if "burn" in request.prompt["text"]:
            os.kill(os.getpid(), signal.SIGKILL)
        super().add(request)


def load(context: StageContext) -> FaultyStage:
    """Fails to load as often as the file named by the option ``failures`` says.

    With the option ``never_loads`` it goes on loading.
    """
    if context.stage.options.get("never_loads"):
        threading.Event().wait()
    path = context.stage.options.get("failures")
    if path is not None:
        left = int(Path(path).read_text())
        Path(path).write_text(str(max(0, left - 1)))
        if left > 0:
            raise RuntimeError("the model file is broken")
    return FaultyStage()
