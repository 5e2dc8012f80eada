"""The code2wav stage: frames of codes to audio, a piece of each request in one step.

Keeps of a request the frames that a later piece needs, and nothing that was computed: a piece can
be decoded anywhere, and a replay begins with the frames that the next piece needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import torch

from engine.errors import ConfigError
from engine.messages import Fingerprint, StageRequest, StageUpdate
from engine.pipeline import load_object
from worker.fingerprint import make_fingerprint
from worker.models.lm_codec.codec import pick_device
from worker.models.qwen_omni.code2wav import Decoder, Piece, Samples
from worker.models.qwen_omni.codes import Codes, read_codes
from worker.pcm import Int16Array, to_int16
from worker.rows import RowStage, declare_sparse
from worker.stage_model import RowStatus, StageContext, StepOutput

_LOADERS = {
    "qwen2.5": "worker.models.qwen_omni.qwen2_5_code2wav:load_decoder",
    "qwen3": "worker.models.qwen_omni.qwen3_code2wav:load_decoder",
}


@dataclass(slots=True, kw_only=True)
class _Request:
    """``codes`` begin with frame ``first``, which begins input ``units_done``.

    ``unit_sizes``: frames of each input from there on. ``start`` is the next frame to be decoded,
    and its audio begins at ``position``.
    """

    decoder: Decoder
    voice: str
    seed: int
    codes: Codes
    first: int
    start: int
    units_done: int
    position: int
    skip_position: int
    is_open: bool = True
    unit_sizes: deque[int] = field(default_factory=deque)

    @property
    def num_known(self) -> int:
        return self.first + len(self.codes)

    @property
    def has_ended(self) -> bool:
        return not self.is_open and self.start == self.num_known

    @property
    def has_work(self) -> bool:
        return self.has_ended or self.next_stop is not None

    @property
    def next_stop(self) -> int | None:
        """Where the next piece ends, if it can be decoded now."""
        if self.start == self.num_known:
            return None
        return self.decoder.next_stop(self.start, self.num_known, is_last=not self.is_open)

    def piece(self, stop: int) -> Piece:
        """The next one, and what is around it."""
        first = max(self.first, self.decoder.first_needed(self.start))
        end = stop + self.decoder.num_ahead
        return Piece(
            codes=self.codes[first - self.first : end - self.first],
            first=first,
            start=self.start,
            stop=stop,
            voice=self.voice,
            seed=self.seed,
        )

    def take(self, samples: Samples, stop: int) -> Samples:
        """Go on behind a piece; those of its samples that are new to the listener."""
        num_skipped = min(max(self.skip_position - self.position, 0), len(samples))
        self.position += len(samples)
        self.start = stop
        self._forget(self.decoder.first_needed(stop))
        return samples[num_skipped:]

    def _forget(self, first_needed: int) -> None:
        """Inputs that end before this frame."""
        while self.unit_sizes and self.first + self.unit_sizes[0] <= first_needed:
            size = self.unit_sizes.popleft()
            self.codes = self.codes[size:]
            self.first += size
            self.units_done += 1

    def status(self) -> RowStatus:
        return RowStatus(
            finished=self.has_ended,
            end_position=max(self.position, self.skip_position),
            units_done=self.units_done,
            done_position=self.position,
            checkpoint={"first": self.first, "start": self.start},
        )


class Code2WavStage(RowStage[_Request]):
    """Decodes a piece of each request of a batch."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self._decoder = decoder

    def add(self, request: StageRequest) -> None:
        checkpoint = request.checkpoint or {"first": 0, "start": 0}
        width = self._decoder.facts.frame_width
        seed = request.sampling.seed
        self._rows[request.request_id] = _Request(
            decoder=self._decoder,
            voice=self._decoder.find_voice(request.prompt),
            seed=request.seed if seed is None else seed,
            codes=np.zeros((0, width), np.int32),
            first=checkpoint["first"],
            start=checkpoint["start"],
            units_done=request.first_unit,
            position=request.start_position,
            skip_position=request.skip_position,
        )

    def update(self, update: StageUpdate) -> None:
        request = self._rows[update.request_id]
        facts = self._decoder.facts
        codes = read_codes(update.payload, facts.frame_width, facts.num_codes)
        request.codes = np.concatenate([request.codes, codes])
        request.unit_sizes.append(len(codes))
        request.is_open = not update.final

    def step(self, batch: Sequence[str]) -> StepOutput:
        stops = {rid: self._rows[rid].next_stop for rid in batch}
        pieces = {
            rid: self._rows[rid].piece(stop) for rid, stop in stops.items() if stop is not None
        }
        audio: dict[str, Int16Array] = {}
        rows: dict[str, RowStatus] = {}
        for request_id, samples in self._decode(pieces).items():
            if isinstance(samples, Exception):
                rows[request_id] = RowStatus(error=samples)
                continue
            sent = self._rows[request_id].take(samples, pieces[request_id].stop)
            if len(sent):
                audio[request_id] = to_int16(sent)
        for request_id in batch:
            rows.setdefault(request_id, self._rows[request_id].status())
        return StepOutput(declare_sparse(list(audio)) | {"audio": list(audio.values())}, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint(self._decoder.files, torch.get_num_threads())

    def _decode(self, pieces: dict[str, Piece]) -> dict[str, Samples | Exception]:
        """As one batch; if that fails, one by one, so that a bad one fails nobody else."""
        if not pieces:
            return {}
        try:
            return dict(zip(pieces, self._decoder.decode(list(pieces.values())), strict=True))
        except Exception as error:
            if len(pieces) == 1:
                return dict.fromkeys(pieces, error)
        results: dict[str, Samples | Exception] = {}
        for request_id, piece in pieces.items():
            results |= self._decode({request_id: piece})
        return results


class Code2WavOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``checkpoint``: a folder or a hub id. ``device``: auto, cpu, cuda or cuda:N.

    ``gpu_memory_fraction``: above 0, at most 1; see ``pick_device``.

    ``window_blocks`` is for qwen2.5: 0 decodes a speech whole, when it has ended, as transformers
    does; above 0, in windows with a core of so many blocks (0.24 s each) while it goes on, which
    comes near to that and is not equal to it.
    """

    family: str
    checkpoint: str
    device: str = "auto"
    gpu_memory_fraction: float = 1.0
    window_blocks: int = 0

    def __post_init__(self) -> None:
        if self.family not in _LOADERS:
            raise ValueError(f"family must be one of {', '.join(_LOADERS)}, got {self.family!r}")
        if self.window_blocks < 0 or (self.window_blocks and self.family != "qwen2.5"):
            raise ValueError("window_blocks must be at least 0, and 0 for any family but qwen2.5")


def load(context: StageContext) -> Code2WavStage:
    """The stage with its decoder, in float32. Raises ``ConfigError``."""
    options = context.read_options(Code2WavOptions)
    device = pick_device(options.device, options.gpu_memory_fraction)
    try:
        windows = {"window_blocks": options.window_blocks} if options.window_blocks else {}
        decoder: Decoder = load_object(_LOADERS[options.family], "family")(
            options.checkpoint, device, **windows
        )
    except (OSError, ImportError) as error:
        message = f"cannot load the code2wav of {options.checkpoint!r}: {error}"
        raise ConfigError(message) from error
    if decoder.facts.sample_rate != context.pipeline.sample_rate:
        raise ConfigError(
            f"sample_rate must be {decoder.facts.sample_rate}, got {context.pipeline.sample_rate}"
        )
    return Code2WavStage(decoder)
