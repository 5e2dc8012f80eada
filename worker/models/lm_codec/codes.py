"""From a model's tokens to frames of codes, as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from engine.errors import StageFailedError
from worker.models.lm_codec.description import Description

Codes: TypeAlias = npt.NDArray[np.int32]


class InvalidCodesError(StageFailedError):
    """The model said something that is no speech."""


@dataclass(frozen=True, slots=True)
class FrameLayout:
    """The token ids of a frame, in the order of the model.

    ``starts[i]`` is the id of code 0 of slot i, ``sizes[i]`` its number of codes. ``columns[j]`` is
    the slot that column j of a codes array holds: by codebook, then in the order of the model.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    codebooks: tuple[int, ...]
    columns: tuple[int, ...]
    skips_others: bool

    @classmethod
    def of(cls, description: Description, starts: Sequence[int]) -> FrameLayout:
        codebooks = tuple(slot.codebook for slot in description.tokens.frame)
        return cls(
            starts=tuple(starts),
            sizes=tuple(description.codec.codebook_sizes[book] for book in codebooks),
            codebooks=codebooks,
            columns=tuple(sorted(range(len(codebooks)), key=codebooks.__getitem__)),
            skips_others=description.tokens.others == "skip",
        )

    def holds(self, token: int) -> bool:
        """Whether it is a code, of any slot."""
        pairs = zip(self.starts, self.sizes, strict=True)
        return any(start <= token < start + size for start, size in pairs)

    def token_ids(self, codes: Codes) -> list[int]:
        """The tokens that say these frames, int32 [frames, columns]: the way back."""
        slots = np.empty_like(codes)
        slots[:, list(self.columns)] = codes
        return [int(token) for token in (slots + np.array(self.starts)).ravel()]


class CodeReader:
    """Takes tokens, gives frames. Raises ``InvalidCodesError`` and is of no use afterwards."""

    def __init__(self, layout: FrameLayout) -> None:
        self._layout = layout
        self._open: list[int] = []  # codes of the frame that is not whole yet, by slot
        self.num_frames = 0

    def feed(self, tokens: Sequence[int]) -> Codes:
        """The frames that these tokens complete, int32 [frames, columns]."""
        frames: list[list[int]] = []
        for token in tokens:
            self._take(token)
            if len(self._open) == len(self._layout.starts):
                frames.append([self._open[slot] for slot in self._layout.columns])
                self._open.clear()
                self.num_frames += 1
        return np.array(frames, np.int32).reshape(len(frames), len(self._layout.starts))

    def finish(self) -> None:
        """The stream has ended: no frame may be half said."""
        if self._open:
            raise InvalidCodesError(
                f"the model stopped within frame {self.num_frames}: "
                f"{len(self._open)} of its {len(self._layout.starts)} tokens had come"
            )

    def _take(self, token: int) -> None:
        layout = self._layout
        slot = len(self._open)
        code = token - layout.starts[slot]
        if 0 <= code < layout.sizes[slot]:
            self._open.append(code)
        elif layout.holds(token) or not layout.skips_others:
            raise InvalidCodesError(
                f"the model said token {token} in frame {self.num_frames}, "
                f"where a code of codebook {layout.codebooks[slot]} had to come"
            )
