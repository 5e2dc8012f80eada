"""What the code2wav stage asks of a decoder of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from worker.models.qwen_omni.codes import Codes

Samples = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderFacts:
    """Codes of a frame are from 0 to ``num_codes`` - 1; a frame is ``frame_samples`` long.

    Audio ends ``lag_samples`` before the end of the last frame known.
    """

    sample_rate: int
    frame_width: int
    num_codes: int
    frame_samples: int
    lag_samples: int = 0

    def position(self, frame: int) -> int:
        """How many samples the frames before this one make."""
        return max(0, frame * self.frame_samples - self.lag_samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The frames from ``start`` to ``stop``, to be decoded.

    ``codes`` int32 [frames, width] begin with frame ``first``: what is before ``start``, or behind
    ``stop``, is around it.
    """

    codes: Codes
    first: int
    start: int
    stop: int
    voice: str
    seed: int


class Decoder(Protocol):
    """A decoder of codes; where its pieces end depends on the frames' numbers alone."""

    @property
    def facts(self) -> DecoderFacts: ...

    @property
    def files(self) -> list[Path]:
        """The files that decide its output."""
        ...

    @property
    def num_ahead(self) -> int:
        """How many frames behind a piece its decoding needs, where there are so many."""
        ...

    def find_voice(self, prompt: dict[str, Any]) -> str:
        """The voice that a request asks for. Raises ``InvalidRequestError`` that lists them."""
        ...

    def first_needed(self, start: int) -> int:
        """The first frame that decoding needs from ``start`` on."""
        ...

    def next_stop(self, start: int, num_known: int, *, is_last: bool) -> int | None:
        """Where the piece at ``start`` ends, or None if too few frames are known.

        ``is_last``: no more frames come.
        """
        ...

    def decode(self, pieces: Sequence[Piece]) -> list[Samples]:
        """The samples from ``position(start)`` to ``position(stop)`` of each piece."""
        ...
