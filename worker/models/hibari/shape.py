"""Derived voices: what may be changed about a voice without another model."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

VOICED_HZ = 40.0
"""Below this f0 is unvoiced, as in hibari's ``dsp.pulses``."""

MIN_SHAPED_HZ, MAX_SHAPED_HZ = 50.0, 600.0
"""A shaped f0 stays voiced, and in the range of human speech."""

_LIMITS = {
    "pitch_ratio": (0.5, 2.0),
    "pitch_range": (0.0, 2.5),
    "formant_ratio": (0.7, 1.4),
    "tilt_db": (-12.0, 12.0),
    "noise_db": (-12.0, 12.0),
    "gain_db": (-20.0, 12.0),
}


@dataclass(frozen=True, slots=True)
class VoiceShape:
    """A voice derived from another. The defaults change nothing.

    Raises:
        ValueError: a value outside its limits; the message names the field and the limits.
    """

    pitch_ratio: float = 1.0
    """Factor on f0, 0.5 to 2."""
    pitch_range: float = 1.0
    """Factor on the distance of log f0 from its mean over the sentence, 0 (monotone) to 2.5."""
    formant_ratio: float = 1.0
    """Factor on the frequencies of the spectral envelope, 0.7 to 1.4; less is a longer throat."""
    tilt_db: float = 0.0
    """Brightness: gain at 8 kHz relative to 500 Hz, -12 to 12, linear in log frequency between."""
    noise_db: float = 0.0
    """Breath: gain of the noise branch, -12 to 12."""
    gain_db: float = 0.0
    """Gain of everything, -20 to 12."""

    def __post_init__(self) -> None:
        for each in fields(self):
            low, high = _LIMITS[each.name]
            value = getattr(self, each.name)
            if not low <= value <= high:
                raise ValueError(f"{each.name} must be from {low:g} to {high:g}, not {value!r}")

    def apply_to_pitch(
        self, f0: npt.NDArray[np.float32], mean_hz: float | None = None
    ) -> npt.NDArray[np.float32]:
        """The f0 curve [F] in Hz of a sentence, shaped. Unvoiced frames stay as they are.

        ``mean_hz`` is the pitch from which ``pitch_range`` counts: for a part of a sentence, whose
        own mean is not the sentence's.
        """
        voiced = f0 > VOICED_HZ
        if (self.pitch_ratio == 1 and self.pitch_range == 1) or not voiced.any():
            return f0
        height = np.log(f0[voiced])
        mean = height.mean() if mean_hz is None else math.log(mean_hz)
        shaped = np.exp(mean + self.pitch_range * (height - mean)) * self.pitch_ratio
        result = f0.copy()
        result[voiced] = np.clip(shaped, MIN_SHAPED_HZ, MAX_SHAPED_HZ)
        return result


NEUTRAL = VoiceShape()
