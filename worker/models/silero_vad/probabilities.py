"""How probable speech is, frame by frame: Silero's network over audio that comes in pieces."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime as ort

from engine.errors import ConfigError

# The network's own: 32 ms frames at 16 kHz, each with the 64 samples before it, and an LSTM.
SAMPLE_RATE = 16_000
FRAME_SAMPLES = 512
_CONTEXT_SAMPLES = 64
_STATE_SHAPE = (1, 1, 128)

Samples = npt.NDArray[np.float32]


def model_path() -> Path:
    """The network's file, which comes with faster-whisper. Raises ``ConfigError``."""
    found = importlib.util.find_spec("faster_whisper")
    folders = [] if found is None else list(found.submodule_search_locations or [])
    files = [path for folder in folders for path in Path(folder, "assets").glob("silero_vad*.onnx")]
    if not files:
        raise ConfigError(
            "the voice activity network comes with faster-whisper, which is not installed: "
            "pip install 'voxloom[asr]'"
        )
    return max(files)


class SpeechNet:
    """The network. One may serve many streams, from many threads."""

    def __init__(self, path: Path) -> None:
        options = ort.SessionOptions()
        # A frame takes a fifth of a millisecond: threads would only wake each other.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(
            path.read_bytes(), options, providers=["CPUExecutionProvider"]
        )

    def run(
        self, frames: Samples, hidden: Samples, cell: Samples
    ) -> tuple[Samples, Samples, Samples]:
        """Probabilities [num_frames] of successive frames [num_frames, 576], and the new state."""
        found = self._session.run(None, {"input": frames, "h": hidden, "c": cell})
        return found[0], found[1], found[2]


class SpeechProbabilities:
    """One stream of audio. How it is cut into pieces changes nothing but rounding (1e-6)."""

    def __init__(self, net: SpeechNet) -> None:
        self._net = net
        self._hidden = np.zeros(_STATE_SHAPE, np.float32)
        self._cell = np.zeros(_STATE_SHAPE, np.float32)
        # The context of the next frame, and what is there of that frame.
        self._pending = np.zeros(_CONTEXT_SAMPLES, np.float32)

    @property
    def num_pending(self) -> int:
        """Samples that wait for their frame to be whole."""
        return len(self._pending) - _CONTEXT_SAMPLES

    def feed(self, audio: Samples) -> Samples:
        """``audio`` float32 [samples] at 16 kHz; the probabilities of the frames now whole."""
        joined = np.concatenate([self._pending, audio])
        num_frames = (len(joined) - _CONTEXT_SAMPLES) // FRAME_SAMPLES
        if num_frames == 0:
            self._pending = joined
            return np.zeros(0, np.float32)
        frames = np.lib.stride_tricks.sliding_window_view(joined, _CONTEXT_SAMPLES + FRAME_SAMPLES)
        frames = np.ascontiguousarray(frames[::FRAME_SAMPLES][:num_frames])
        self._pending = joined[num_frames * FRAME_SAMPLES :]
        probabilities, self._hidden, self._cell = self._net.run(frames, self._hidden, self._cell)
        return probabilities.reshape(-1)
