"""Classifier-free guidance as a logits processor of vLLM.

Of each guided group the logits c of the guided row and u of the other become ``u + g * (c - u)`` in
float32 (Ho and Salimans 2022, with g = w + 1), written to both rows. Seeded alike, both then take
the same token, sampled or greedy.

The scheduler (``worker.vllm.group_scheduler``) sees to it that both rows are in every batch. A row
that is here without its partner is left as it is: the scheduler drops its token, and fails it.
"""

from __future__ import annotations

from typing import Any

import torch
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor
from vllm.v1.sample.logits_processor.builtin import process_dict_updates

from worker.vllm.blend import blend_logits
from worker.vllm.row_marks import GUIDED_ROW, GroupMark, read_group


class GuidanceProcessor(LogitsProcessor):
    """Runs behind vLLM's own processors: biases and masks are equal in both rows, and stay."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._device = device
        self._marks: dict[int, GroupMark] = {}
        self._guided = self._free = torch.empty(0, dtype=torch.long, device=device)
        self._scale = torch.empty(0, 1, device=device)
        self._nats: torch.Tensor | None = None

    def is_argmax_invariant(self) -> bool:
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if process_dict_updates(self._marks, batch_update, _mark_of):
            self._index()

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """``logits`` float32 [rows, vocabulary], changed in place."""
        if not len(self._guided):
            return logits
        guided, free = logits.index_select(0, self._guided), logits.index_select(0, self._free)
        blend = blend_logits(guided, free, self._scale, self._nats)
        return logits.index_copy_(0, self._guided, blend).index_copy_(0, self._free, blend)

    def _index(self) -> None:
        """The rows of the batch that belong together."""
        by_group: dict[str, dict[int, int]] = {}
        marks: dict[str, GroupMark] = {}
        for index, mark in self._marks.items():
            by_group.setdefault(mark.group_id, {})[mark.row] = index
            marks[mark.group_id] = mark
        whole = [group_id for group_id, rows in by_group.items() if len(rows) > 1]
        pairs = [by_group[group_id] for group_id in whole]
        self._guided = self._tensor([rows[GUIDED_ROW] for rows in pairs], torch.long)
        self._free = self._tensor([rows[1 - GUIDED_ROW] for rows in pairs], torch.long)
        scales = [[marks[group_id].scale] for group_id in whole]
        self._scale = self._tensor(scales, torch.float32).reshape(-1, 1)
        nats = [marks[group_id].plausible_nats for group_id in whole]
        self._nats = None
        if any(each is not None for each in nats):
            bounds = [[torch.inf if each is None else each] for each in nats]
            self._nats = self._tensor(bounds, torch.float32)

    def _tensor(self, values: list[Any], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=self._device)


def _mark_of(
    params: Any, _prompt_ids: list[int] | None, _output_ids: list[int]
) -> GroupMark | None:
    return read_group(params.extra_args)
