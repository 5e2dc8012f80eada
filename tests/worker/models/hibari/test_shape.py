"""What shapes do to pitch, and their limits."""

from __future__ import annotations

import numpy as np
import pytest

from worker.models.hibari.shape import NEUTRAL, VoiceShape

F0 = np.array([0, 32, 150, 200, 240, 91, 0], np.float32)


def test_neutral_returns_the_curve_itself() -> None:
    assert NEUTRAL.apply_to_pitch(F0) is F0


def test_pitch_ratio_moves_voiced_frames_alone() -> None:
    shaped = VoiceShape(pitch_ratio=0.8).apply_to_pitch(F0)
    assert np.allclose(shaped, [0, 32, 120, 160, 192, 72.8, 0])


def test_pitch_range_keeps_the_mean_of_log_f0() -> None:
    voiced = F0[F0 > 40]
    for pitch_range in (0.0, 0.5, 1.5):
        shaped = VoiceShape(pitch_range=pitch_range).apply_to_pitch(F0)[F0 > 40]
        assert np.isclose(np.log(shaped).mean(), np.log(voiced).mean())
        assert np.isclose(np.log(shaped).std(), pitch_range * np.log(voiced).std(), atol=1e-6)


def test_shaped_pitch_stays_voiced_and_human() -> None:
    low = VoiceShape(pitch_ratio=0.5, pitch_range=2.5).apply_to_pitch(F0)
    high = VoiceShape(pitch_ratio=2.0, pitch_range=2.5).apply_to_pitch(F0)
    assert low[F0 > 40].min() >= 50
    assert high.max() <= 600


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("pitch_ratio", 0.49),
        ("pitch_ratio", float("nan")),
        ("pitch_range", -0.1),
        ("formant_ratio", 1.5),
        ("tilt_db", 13.0),
        ("noise_db", -13.0),
        ("gain_db", 13.0),
    ],
)
def test_values_out_of_range_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{field} must be from"):
        VoiceShape(**{field: value})
