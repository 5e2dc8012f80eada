"""Phoneme ids to durations, pitch and energy: the first half of a hibari voice, as shipped."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from worker.models.hibari.graphs import VoiceGraph, read_voice
from worker.models.hibari.sessions import open_session

MIN_SPEED, MAX_SPEED = 0.25, 4.0

MIN_IDS = 3
"""Two pads and one phoneme."""


@dataclass(frozen=True, slots=True)
class ProsodyFrames:
    """How one sentence is to be spoken."""

    durations: npt.NDArray[np.int32]
    """[L] units of 25 ms, one per id including both pads."""
    f0: npt.NDArray[np.float32]
    """[F] Hz, F = 2 * sum(durations): frames of 12.5 ms."""
    energy: npt.NDArray[np.float32]
    """[F], about -10 to 9."""


class ProsodyNet:
    """Predicts the prosody of a sentence. Stateless and thread-safe."""

    def __init__(self, voice: VoiceGraph) -> None:
        seams = voice.seams
        self._names = [seams.durations, seams.f0, seams.energy]
        kinds = [TensorProto.INT64, TensorProto.FLOAT, TensorProto.FLOAT]
        part = voice.cut(["ids", "speed"], dict(zip(self._names, kinds, strict=True)))
        self._session = open_session(part.SerializeToString())

    @classmethod
    def load(cls, model_path: str | Path | None = None) -> ProsodyNet:
        """Read a voice file, the one in the hibari wheel by default.

        Raises:
            ConfigError: the file is not a hibari voice.
        """
        return cls(read_voice(model_path or bundled_voice()))

    def run(self, ids: npt.NDArray[np.int64], speed: float) -> ProsodyFrames:
        """Predict durations, pitch and energy.

        Args:
            ids: [L] phoneme ids with the pads (0) at both ends.
            speed: 0.25 to 4; 1 is the voice's own pace.

        Raises:
            ValueError: ids or speed are not allowed.
        """
        if ids.ndim != 1 or ids.size < MIN_IDS:
            raise ValueError(f"ids must be one row of at least {MIN_IDS}, not of shape {ids.shape}")
        if not MIN_SPEED <= speed <= MAX_SPEED:
            raise ValueError(f"speed must be from {MIN_SPEED} to {MAX_SPEED}, not {speed!r}")
        feed = {"ids": ids[None], "speed": np.array([speed], np.float32)}
        durations, f0, energy = self._session.run(self._names, feed)
        return ProsodyFrames(durations.astype(np.int32), f0[0], energy[0])


def bundled_voice() -> Path:
    """The voice file in the hibari wheel ("heart", American English).

    Found without importing the package, which would load SciPy: a quarter of a replica's start.
    """
    spec = find_spec("hibari")
    assert spec is not None, "hibari-tts is a dependency"
    assert spec.origin is not None, "it is a package with a file"
    return Path(spec.origin).with_name("assets") / "hibari.onnx"
