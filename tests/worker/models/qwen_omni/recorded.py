"""A stage 0 that remembers what a thinker thought, and tells as much of it as it is asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.messages import Fingerprint, Payload, StageRequest, StageUpdate
from tests.worker.models.qwen_omni.thinking import payload
from worker.fingerprint import make_fingerprint
from worker.models.qwen_omni.thought import Thought
from worker.rows import UnitStage
from worker.stage_model import RowStatus, StageContext

_NAMES = ("token_ids", "embeddings", "hidden", "multimodal")


def record(path: Path, thoughts: Sequence[Thought]) -> None:
    """Thoughts of a prompt and of the rows of its answer, into a file."""
    arrays = {
        f"{number} {name}": getattr(thought, name)
        for number, thought in enumerate(thoughts)
        for name in _NAMES
    }
    with path.open("wb") as file:
        np.savez(file, **arrays)


@dataclass(slots=True)
class _Memory:
    """``num_allowed`` of the thoughts may be told so far."""

    thoughts: deque[Thought]
    num_allowed: int
    is_open: bool
    num_told: int = 0

    @property
    def has_work(self) -> bool:
        return self.num_allowed > 0 or not self.is_open

    def status(self) -> RowStatus:
        is_done = not self.is_open and not self.thoughts
        return RowStatus(finished=is_done, end_position=self.num_told)


class RecordedStage(UnitStage[_Memory]):
    """The text of a prompt, and of each update, says how many thoughts more to tell."""

    output_name = "thought"

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        with np.load(path) as file:
            self._arrays = dict(file)

    def add(self, request: StageRequest) -> None:
        num_thoughts = len(self._arrays) // len(_NAMES)
        thoughts = deque(self._thought(number, num_thoughts) for number in range(num_thoughts))
        count = int(request.prompt["text"])
        self._rows[request.request_id] = _Memory(thoughts, count, request.resumable)

    def update(self, update: StageUpdate) -> None:
        row = self._rows[update.request_id]
        row.num_allowed += int(update.payload["text"])
        row.is_open = not update.final

    def next_unit(self, row: _Memory) -> Payload | None:
        if not row.thoughts:
            return None
        row.num_allowed -= 1
        row.num_told += 1
        told: Payload = payload(row.thoughts.popleft())["thought"]
        return told

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([self._path])

    def _thought(self, number: int, num_thoughts: int) -> Thought:
        arrays = {name: self._arrays[f"{number} {name}"] for name in _NAMES}
        return Thought(**arrays, is_prompt=number == 0, is_last=number == num_thoughts - 1)


def load(context: StageContext) -> RecordedStage:
    return RecordedStage(Path(context.stage.options["path"]))
