"""A small guided generation model: classifier-free guidance over the rows of a batch.

A recurrent network with fixed random weights writes one token per step. A guided parent and its
companion see different prompts; their logits are blended, ``u + g * (c - u)`` in float32, and both
take the same token. A row that is stepped without its partner is an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.messages import (
    Fingerprint,
    Prompt,
    SamplingParams,
    StageInteraction,
    StageRequest,
    StageUpdate,
)
from engine.pipeline import PromptExpansion
from worker.fingerprint import make_fingerprint
from worker.stage_model import RowStatus, StageContext, StepOutput

VOCAB = 64
HIDDEN = 32
NUM_TOKENS = 40
GUIDANCE = 3.0

Floats = npt.NDArray[np.float32]

_rng = np.random.default_rng(7)
_EMBED = _rng.standard_normal((VOCAB, HIDDEN)).astype(np.float32)
_RECUR = (_rng.standard_normal((HIDDEN, HIDDEN)) / 4).astype(np.float32)


def first_state(text: str) -> Floats:
    rng = np.random.default_rng(zlib.crc32(text.encode()))
    return rng.standard_normal(HIDDEN).astype(np.float32)


def logits(state: Floats) -> Floats:
    scores: Floats = _EMBED @ state
    return scores


def next_state(state: Floats, token: int) -> Floats:
    new: Floats = np.tanh(_RECUR @ state + _EMBED[token])
    return new


def reference_tokens(text: str, null_text: str) -> list[int]:
    """The two passes one after the other, as a plain loop."""
    guided, free, tokens = first_state(text), first_state(null_text), list[int]()
    for _ in range(NUM_TOKENS):
        u, c = logits(free), logits(guided)
        token = int(np.argmax(u + np.float32(GUIDANCE) * (c - u)))
        tokens.append(token)
        guided, free = next_state(guided, token), next_state(free, token)
    return tokens


def transform_prompt(prompt: Prompt) -> Prompt:
    return prompt | {"base_hz": 220.0}


def expand_prompt(prompt: Prompt, _sampling: SamplingParams) -> list[PromptExpansion]:
    """An unconditional companion; a text can ask for none, for two, or for a failure."""
    text = prompt["text"]
    if "explode" in text:
        raise RuntimeError("the expansion failed")
    if "solo" in text:
        return []
    roles = ["free", "second"] if "twice" in text else ["free"]
    return [PromptExpansion({"text": f"null {role}"}, role, f"/{role}") for role in roles]


@dataclass(slots=True)
class _Row:
    state: Floats
    group_id: str | None
    role: str | None
    num_to_skip: int
    fails_at: int | None
    num_tokens: int = 0


class GuidedStage:
    """``fail N`` in a companion's or parent's text fails its row at token N."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    @property
    def num_requests(self) -> int:
        return len(self._rows)

    def add(self, request: StageRequest) -> None:
        text = request.prompt["text"]
        fails_at = int(text.split("fail")[1]) if "fail" in text else None
        self._rows[request.request_id] = _Row(
            first_state(text), request.group_id, request.role, request.skip_position, fails_at
        )

    def update(self, update: StageUpdate) -> None:
        raise ValueError("a guided request takes no segments")

    def interact(self, interaction: StageInteraction) -> None:
        raise ValueError("a guided request takes no interactions")

    def abort(self, request_id: str) -> None:
        self._rows.pop(request_id, None)

    def abandon(self, request_id: str) -> None:
        """Its steps are short."""

    def has_work(self, request_id: str) -> bool:
        return request_id in self._rows

    def step(self, batch: Sequence[str]) -> StepOutput:
        statuses: dict[str, RowStatus] = {}
        notes: dict[str, dict[str, int]] = {}
        for members in self._groups(batch):
            token = self._pick(members)
            for request_id in members:
                row = self._rows[request_id]
                if row.fails_at == row.num_tokens:
                    statuses[request_id] = RowStatus(error=RuntimeError("on command"))
                    continue
                row.state = next_state(row.state, token)
                row.num_tokens += 1
                if row.num_tokens > row.num_to_skip:
                    notes[request_id] = {"hz": 200 + 10 * token, "num_samples": 240}
                statuses[request_id] = RowStatus(
                    finished=row.num_tokens == NUM_TOKENS,
                    end_position=max(row.num_tokens, row.num_to_skip),
                )
        meta = {"req_id": list(notes), "sparse_audio": ["1"]}
        return StepOutput({"meta": meta, "note": list(notes.values())}, statuses)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([])

    def _groups(self, batch: Sequence[str]) -> list[list[str]]:
        groups: dict[str, list[str]] = {}
        for request_id in batch:
            groups.setdefault(self._rows[request_id].group_id or request_id, []).append(request_id)
        for group_id, members in groups.items():
            whole = [r for r, row in self._rows.items() if row.group_id == group_id]
            assert not whole or sorted(whole) == sorted(members), "a row without its partner"
            assert len({self._rows[r].num_tokens for r in members}) == 1, "rows out of step"
        return list(groups.values())

    def _pick(self, members: list[str]) -> int:
        by_role = {self._rows[r].role: logits(self._rows[r].state) for r in members}
        guided = by_role[None]
        free = by_role.get("free", guided)
        return int(np.argmax(free + np.float32(GUIDANCE) * (guided - free)))


def load(_context: StageContext) -> GuidedStage:
    return GuidedStage()
