"""Stage 1 of hibari: frames to audio, a few frames per request and step."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.messages import Fingerprint, StageInteraction, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.hibari.acoustic import Code2Wav, SentenceStream
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.stage_model import RowStatus, StageContext, StepOutput

Int16Array = npt.NDArray[np.int16]

FRAME_SAMPLES = 300  # 12.5 ms at 24 kHz
# The model starts each sentence with about 0.32 s of silence. The first sentence of a request
# keeps this much of it.
_LEAD_FRAMES = 4
# Frames per step: how far the first steps of a request reach, by the frame at which they start.
# The first brings the look-ahead of decoder and vocoder (31 frames) and about 80 ms of sound;
# the later ones grow, since a listener then has audio in hand and fewer steps cost less.
_FIRST_STEP_FRAMES = 38
_PLAN = ((0, 24), (64, 40), (160, 80))


@dataclass(slots=True)
class _Request:
    units_done: int
    done_sample: int
    num_to_skip: int
    units: deque[dict[str, Any]] = field(default_factory=deque)
    stream: SentenceStream | None = None
    num_pushed: int = 0  # frames of the open sentence
    num_emitted: int = 0  # samples of the open sentence
    is_open: bool = True

    @property
    def position(self) -> int:
        return self.done_sample + self.num_emitted


class Code2WavStage:
    """Opens a later sentence in a step of its own: that keeps every step short.

    Such a step has no audio, so a batch has strict subsets of its rows with audio.
    """

    def __init__(self) -> None:
        self._requests: dict[str, _Request] = {}
        self._models: dict[str, Code2Wav] = {}
        self._model_lock = threading.Lock()

    def warm_up(self) -> None:
        """Load the default voice's model and decode a little silence, in two sizes."""
        ids = np.zeros(3, np.int64)
        durations = np.full(3, 20, np.int32)
        flat = np.zeros(120, np.float32)
        stream = self._model("").open(ids, durations, flat, flat, seed=0, shape=NEUTRAL)
        while not stream.finished:
            stream.step(_FIRST_STEP_FRAMES)

    @property
    def num_requests(self) -> int:
        return len(self._requests)

    def add(self, request: StageRequest) -> None:
        self._requests[request.request_id] = _Request(
            request.first_unit, request.start_sample, request.skip_samples
        )

    def update(self, update: StageUpdate) -> None:
        request = self._requests[update.request_id]
        if "unit" in update.payload:
            request.units.append(update.payload["unit"])
        request.is_open = not update.final

    def interact(self, interaction: StageInteraction) -> dict[str, Any]:
        raise ValueError(f"the stage has no interaction {interaction.kind!r}")

    def abort(self, request_id: str) -> None:
        self._requests.pop(request_id, None)

    def has_work(self, request_id: str) -> bool:
        request = self._requests.get(request_id)
        return request is not None and (bool(request.units) or not request.is_open)

    def step(self, batch: Sequence[str]) -> StepOutput:
        audio: dict[str, Int16Array] = {}
        rows: dict[str, RowStatus] = {}
        for request_id in batch:
            request = self._requests[request_id]
            try:
                samples = self._advance(request)
            except Exception as error:
                rows[request_id] = RowStatus(has_work=False, error=error)
                continue
            if len(samples):
                audio[request_id] = samples
            rows[request_id] = _status(request)
        meta = {"req_id": list(audio), "sparse_audio": ["1"]}
        return StepOutput({"meta": meta, "audio": list(audio.values())}, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint([Path(bundled_voice())])

    def _advance(self, request: _Request) -> Int16Array:
        """Take a request one step further; the samples to send, int16 [n], maybe none."""
        if not request.units:
            return np.zeros(0, np.int16)
        if request.stream is None:
            request.stream = self._open(request)
            if request.units_done > 0:
                return np.zeros(0, np.int16)
        stream = request.stream
        start = request.position
        num_frames = _step_frames(request)
        samples = stream.step(num_frames)
        request.num_pushed += num_frames
        request.num_emitted += len(samples)
        if stream.finished:
            self._close(request)
        skipped = min(max(request.num_to_skip - start, 0), len(samples))
        return to_int16(samples[skipped:])

    def _open(self, request: _Request) -> SentenceStream:
        unit = request.units[0]
        shape = VoiceShape(**unit["shape"])
        return self._model(unit["model_path"]).open(
            unit["ids"],
            unit["durations"],
            unit["f0"],
            unit["energy"],
            seed=unit["seed"],
            shape=shape,
            skip_frames=_lead_to_skip(unit) if request.units_done == 0 else 0,
        )

    @staticmethod
    def _close(request: _Request) -> None:
        request.units.popleft()
        request.units_done += 1
        request.done_sample += request.num_emitted
        request.num_pushed = request.num_emitted = 0
        request.stream = None

    def _model(self, model_path: str) -> Code2Wav:
        """The decoder of a model file, loaded on first use; "" and "." are the packaged one."""
        with self._model_lock:
            if model_path not in self._models:
                path = None if model_path in ("", ".") else Path(model_path)
                self._models[model_path] = Code2Wav.load(path)
            return self._models[model_path]


def load(_context: StageContext) -> Code2WavStage:
    stage = Code2WavStage()
    stage.warm_up()
    return stage


def to_int16(samples: npt.NDArray[np.float32]) -> Int16Array:
    """float32 in -1..1 to int16, rounded; what is beyond is clipped, never wrapped."""
    scaled = np.rint(samples * np.float32(32767.0))
    clipped: Int16Array = np.clip(scaled, -32768, 32767).astype(np.int16)
    return clipped


def _lead_to_skip(unit: dict[str, Any]) -> int:
    """Frames of the leading pad beyond those that are kept; a pad unit is two frames."""
    return max(0, 2 * int(unit["durations"][0]) - _LEAD_FRAMES)


def _step_frames(request: _Request) -> int:
    """How many frames this step takes; a function of the position in the request alone."""
    position = request.position // FRAME_SAMPLES
    if request.units_done == 0 and request.num_pushed == 0:
        return _lead_to_skip(request.units[0]) + _FIRST_STEP_FRAMES
    return next(size for first, size in reversed(_PLAN) if position >= first)


def _status(request: _Request) -> RowStatus:
    return RowStatus(
        has_work=bool(request.units),
        finished=not request.units and not request.is_open,
        end_sample=max(request.position, request.num_to_skip),
        units_done=request.units_done,
        done_sample=request.done_sample,
    )
