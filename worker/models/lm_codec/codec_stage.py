"""The codec stage: windows of codes to audio, one window per request and step, batched."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec
import numpy as np
import torch

from engine.errors import ConfigError, StageFailedError
from engine.messages import Fingerprint, StageRequest, StageUpdate
from worker.fingerprint import make_fingerprint
from worker.models.lm_codec.codec import Codec, Place, load_codec, pick_device
from worker.models.lm_codec.description import Description, load_description
from worker.models.lm_codec.units import unpack_windows
from worker.models.lm_codec.windows import Window, WindowCutter
from worker.pcm import Int16Array, to_int16
from worker.rows import AudioRow, RowStage, declare_sparse, replay_start
from worker.stage_model import RowStatus, StageContext, StepOutput

# First and last character of a passage in the request's text, and whether it ends with the chunk.
SentencePart: TypeAlias = tuple[int, int, bool]


@dataclass(slots=True)
class _Unit:
    windows: deque[Window]
    seed: int
    span: tuple[int, int]


class CodecStage(RowStage[AudioRow]):
    """Holds no state between windows: each one brings what is around it.

    Windows of equal length are decoded as one batch. Without padding, what a request gets does not
    depend on its neighbours (but for the last bits of float sums).
    """

    def __init__(self, codec: Codec, device: torch.device) -> None:
        super().__init__()
        self._codec = codec
        self._device = device

    def warm_up(self, description: Description) -> None:
        """Decode each size of window once: kernels are chosen and memory is taken at first use."""
        cutter = WindowCutter(description)
        num_frames = round(4000 / description.frame_ms)
        windows = cutter.feed(np.zeros((num_frames, description.num_slots), np.int32))
        for window in windows:
            self._decode([(Place(0, window.first_frame - window.num_left), window)])

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = AudioRow(**replay_start(request))

    def update(self, update: StageUpdate) -> None:
        row = self._rows[update.request_id]
        unit = update.payload.get("unit")
        if unit is not None:
            windows = deque(unpack_windows(unit))
            row.units.append(_Unit(windows, unit["seed"], tuple(unit["span"])))
        row.is_open = not update.final

    def step(self, batch: Sequence[str]) -> StepOutput:
        heads = {rid: self._rows[rid].units[0] for rid in batch if self._rows[rid].units}
        audio: dict[str, Int16Array] = {}
        sentences: dict[str, SentencePart] = {}
        rows: dict[str, RowStatus] = {}
        for request_id, samples in self._decode_heads(heads).items():
            row, unit = self._rows[request_id], heads[request_id]
            if isinstance(samples, Exception):
                rows[request_id] = RowStatus(error=samples)
                continue
            window = unit.windows.popleft()
            to_send = row.emit(samples)
            if not unit.windows:
                row.close_unit()
            if len(to_send):
                audio[request_id] = to_send
                sentences[request_id] = (*unit.span, window.is_last)
        for request_id in batch:
            rows.setdefault(request_id, self._rows[request_id].status())
        outputs = {"audio": list(audio.values()), "sentence": list(sentences.values())}
        return StepOutput(declare_sparse(list(audio)) | outputs, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint(self._codec.files, torch.get_num_threads())

    def _decode_heads(self, heads: Mapping[str, _Unit]) -> dict[str, Int16Array | Exception]:
        """The samples of each unit's first window, or what went wrong with it."""
        by_length: dict[int, list[str]] = defaultdict(list)
        for request_id, unit in heads.items():
            by_length[len(unit.windows[0].codes)].append(request_id)
        results: dict[str, Int16Array | Exception] = {}
        for request_ids in by_length.values():
            windows = [heads[request_id].windows[0] for request_id in request_ids]
            places = [
                Place(heads[rid].seed, window.first_frame - window.num_left)
                for rid, window in zip(request_ids, windows, strict=True)
            ]
            results |= zip(request_ids, self._decode_all(places, windows), strict=True)
        return results

    def _decode_all(
        self, places: list[Place], windows: list[Window]
    ) -> Sequence[Int16Array | Exception]:
        """One batch; if that fails, one by one, so that a bad window fails nobody else."""
        rows = list(zip(places, windows, strict=True))
        try:
            return self._decode(rows)
        except Exception as error:
            if len(rows) == 1:
                return [error]
        return [self._decode_all([place], [window])[0] for place, window in rows]

    def _decode(self, rows: Sequence[tuple[Place, Window]]) -> list[Int16Array]:
        codes = np.stack([window.codes for _, window in rows]).astype(np.int64)
        self._check_range(codes)
        tensor = torch.from_numpy(codes).to(self._device)
        decoded = self._codec.decode(tensor, [place for place, _ in rows]).cpu().numpy()
        size = self._codec.facts.frame_samples
        return [
            to_int16(row[window.num_left * size : (window.num_left + window.num_core) * size])
            for row, (_, window) in zip(decoded, rows, strict=True)
        ]

    def _check_range(self, codes: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """A code outside its codebook would read other memory, or stop a GPU's context."""
        facts = self._codec.facts
        sizes = np.repeat(facts.codebook_sizes, facts.columns)
        if codes.shape[2] != len(sizes) or (codes < 0).any() or (codes >= sizes).any():
            raise StageFailedError("the codec got codes that are outside of its codebooks")


class CodecOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``description``: a name or a path. ``device``: auto, cpu, cuda or cuda:N.

    ``gpu_memory_fraction``: above 0, at most 1; see ``pick_device``.
    """

    description: str
    device: str = "auto"
    gpu_memory_fraction: float = 1.0


def load(context: StageContext) -> CodecStage:
    """The stage with its codec, warmed up. Raises ``ConfigError``."""
    options = context.read_options(CodecOptions)
    description = load_description(options.description)
    if description.codec.sample_rate != context.pipeline.sample_rate:
        raise ConfigError(
            f"sample_rate must be {description.codec.sample_rate}, as {description.name} has it, "
            f"got {context.pipeline.sample_rate}"
        )
    device = pick_device(options.device, options.gpu_memory_fraction)
    columns = [0] * len(description.codec.codebook_sizes)
    for slot in description.tokens.frame:
        columns[slot.codebook] += 1
    stage = CodecStage(load_codec(description.codec, tuple(columns), device), device)
    stage.warm_up(description)
    return stage
