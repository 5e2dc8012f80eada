"""One request in the talker: what it has read of its text, and what it has said."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch

from engine.errors import StageFailedError
from worker.models.qwen_omni.code_sampling import CodeSampling
from worker.models.qwen_omni.codes import Codes
from worker.models.qwen_omni.kv_pool import KvLease
from worker.models.qwen_omni.talker import Opening, Talker
from worker.models.qwen_omni.thought import Thought
from worker.stage_model import RowStatus


@dataclass(slots=True, kw_only=True)
class Speech:
    """``texts`` are those known and not yet read; ``num_texts`` counts all of them.

    ``last_read`` is what the next position reads of the frame that was said last.
    """

    voice: str
    sampling: CodeSampling
    seed: int
    said: torch.Tensor
    skip_units: int = 0
    opening: Opening | None = None
    texts: deque[torch.Tensor] = field(default_factory=deque)
    num_texts: int = 0
    num_closing: int = 0
    is_closed: bool = False
    lease: KvLease | None = None
    has_begun: bool = False
    has_stopped: bool = False
    last_read: torch.Tensor = field(default_factory=lambda: torch.zeros(0))
    num_frames: int = 0
    num_units: int = 0
    _unsent: list[Codes] = field(default_factory=list)

    # --- what comes in ---------------------------------------------------------------------------

    def take(self, thought: Thought, talker: Talker) -> None:
        """The next thought. Raises ``StageFailedError`` if it is out of place."""
        if self.is_closed:
            raise StageFailedError("the thinker's rows go on behind the last of them")
        if thought.is_prompt != (self.opening is None):
            what = "its prompt twice" if thought.is_prompt else "an answer before its prompt"
            raise StageFailedError(f"the thinker sent {what}")
        if thought.is_prompt:
            self.opening = talker.open(self.voice, thought)
            self._add_texts(self.opening.texts)
        elif thought.num_rows:
            self._add_texts(talker.texts(thought))
        if thought.is_last:
            self.close()

    def close(self) -> None:
        """No more text comes."""
        self.is_closed = True

    def _add_texts(self, texts: torch.Tensor) -> None:
        self.texts += texts.unbind()
        self.num_texts += len(texts)

    # --- what it could do ------------------------------------------------------------------------

    @property
    def may_begin(self) -> bool:
        return self.opening is not None and self.num_texts > 0

    @property
    def is_silent(self) -> bool:
        """It has ended without a word."""
        return self.is_closed and self.num_texts == 0

    @property
    def has_work(self) -> bool:
        return self.is_silent or (self.lease is not None and self.has_text)

    @property
    def has_text(self) -> bool:
        """What the next position reads is known."""
        return bool(self.texts) or self.is_closed

    @property
    def has_read_all(self) -> bool:
        """All of the text, and the sign of its end."""
        return self.num_closing > 0

    @property
    def num_tokens(self) -> int:
        """The most positions that it can take."""
        opening = 0 if self.opening is None else len(self.opening.inputs)
        return opening + 1 + self.sampling.max_frames

    # --- what it reads ---------------------------------------------------------------------------

    def opening_inputs(self, talker: Talker) -> torch.Tensor:
        """All positions before the first frame: [1, tokens, width]."""
        assert self.opening is not None, "a speech begins behind its prompt"
        first = self.texts.popleft() + talker.bos
        inputs = torch.cat([self.opening.inputs, first[None]])[None]
        self.has_begun = True
        return inputs

    def next_text(self, talker: Talker) -> torch.Tensor:
        if self.texts:
            return self.texts.popleft()
        self.num_closing += 1
        return talker.end_text if self.num_closing == 1 else talker.pad_text

    # --- what comes out --------------------------------------------------------------------------

    def note_frame(self, frame: Codes, code: int, read: torch.Tensor) -> None:
        """``code`` is the frame's first."""
        self._unsent.append(frame)
        self.said[code] = True
        self.last_read = read
        self.num_frames += 1

    def take_unit(self, unit_frames: int) -> Codes | None:
        """Frames that leave now, if there are enough or no more come; not those sent before."""
        is_due = len(self._unsent) >= unit_frames or (self.has_stopped and self._unsent)
        if not is_due:
            return None
        frames = np.stack(self._unsent)
        self._unsent.clear()
        self.num_units += 1
        return frames if self.num_units > self.skip_units else None

    def status(self) -> RowStatus:
        return RowStatus(
            finished=self.has_stopped or self.is_silent,
            end_position=max(self.num_units, self.skip_units),
        )


@dataclass(frozen=True, slots=True)
class LengthLimit:
    """How long speech may be for its text."""

    max_ms_per_token: float
    slack_ms: float

    def num_frames(self, speech: Speech, frame_ms: float) -> int:
        """While text still comes the bound grows with it."""
        longest_ms = self.slack_ms + self.max_ms_per_token * speech.num_texts
        return min(speech.sampling.max_frames, int(longest_ms / frame_ms))
