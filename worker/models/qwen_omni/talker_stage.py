"""The talker stage: the thinker's thoughts to frames of codes, many requests in one step.

A request begins when the prompt and the first text of the answer are known and there is room for
its keys and values; from then on a step says one frame of it, as long as the next text is known.
After the last text it goes on to the code that ends the speech.

What was said cannot be told from some inputs alone, so a replay begins at the start: the stage asks
for ``max_pending_units`` above the number of a request's thoughts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
import torch

from engine.errors import ConfigError, StageFailedError
from engine.messages import Fingerprint, StageRequest, StageUpdate
from engine.pipeline import load_object
from worker.fingerprint import make_fingerprint
from worker.models.lm_codec.codec import pick_device
from worker.models.qwen_omni.code_sampling import draw, penalise, pick, read_code_sampling
from worker.models.qwen_omni.codes import pack_codes
from worker.models.qwen_omni.kv_pool import KvPool, KvStep
from worker.models.qwen_omni.speech import LengthLimit, Speech
from worker.models.qwen_omni.talker import Talker
from worker.models.qwen_omni.thought import read_thought
from worker.rows import RowStage, declare_sparse
from worker.seeds import nth_seed
from worker.stage_model import Readiness, RowStatus, StageContext, StepOutput

_LOADERS = {
    "qwen2.5": "worker.models.qwen_omni.qwen2_5_talker:load_talker",
    "qwen3": "worker.models.qwen_omni.qwen3_talker:load_talker",
}


class TalkerStage(RowStage[Speech]):
    """Requests that have no room yet wait in the order in which they could begin."""

    def __init__(
        self,
        talker: Talker,
        pool: KvPool,
        limit: LengthLimit,
        unit_frames: int,
        readiness: Readiness,
    ) -> None:
        """``unit_frames``: how many frames leave together."""
        super().__init__()
        self._talker = talker
        self._pool = pool
        self._limit = limit
        self._unit_frames = unit_frames
        self._readiness = readiness
        self._waiting: deque[str] = deque()
        banned = torch.zeros(talker.facts.num_codes, dtype=torch.bool)
        banned[list(talker.facts.banned_codes)] = True
        self._banned = banned.to(talker.device)

    @property
    def pool(self) -> KvPool:
        return self._pool

    @property
    def talker(self) -> Talker:
        return self._talker

    def add(self, request: StageRequest) -> None:
        facts = self._talker.facts
        sampling = read_code_sampling(request.sampling, facts.sampling)
        said = torch.zeros(facts.num_codes, dtype=torch.bool)
        said[list(facts.said_codes)] = True
        seed = request.sampling.seed
        self._rows[request.request_id] = Speech(
            voice=self._talker.find_voice(request.prompt),
            sampling=sampling,
            seed=request.seed if seed is None else seed,
            said=said.to(self._talker.device),
            skip_units=request.skip_position,
        )

    def update(self, update: StageUpdate) -> None:
        speech = self._rows[update.request_id]
        thought = read_thought(update.payload, self._talker.facts.thinker_width)
        if thought is not None:
            with torch.inference_mode():
                speech.take(thought, self._talker)
        if update.final:
            speech.close()
        if speech.may_begin and speech.lease is None and update.request_id not in self._waiting:
            self._waiting.append(update.request_id)
            self._check_fits(speech)
            self._lend()

    def abort(self, request_id: str) -> None:
        speech = self._rows.get(request_id)
        super().abort(request_id)
        if request_id in self._waiting:
            self._waiting.remove(request_id)
        if speech is not None and speech.lease is not None:
            self._pool.give_back(speech.lease)
            speech.lease = None
        for began in self._lend():
            self._readiness.notify(began)

    @torch.inference_mode()
    def step(self, batch: Sequence[str]) -> StepOutput:
        rows: dict[str, RowStatus] = {}
        speaking = {rid: self._rows[rid] for rid in batch if not self._rows[rid].is_silent}
        self._say(list(speaking.values()))
        units: dict[str, dict[str, object]] = {}
        for request_id, speech in speaking.items():
            error = self._judge(speech)
            if error is not None:
                rows[request_id] = RowStatus(error=error)
                continue
            frames = speech.take_unit(self._unit_frames)
            if frames is not None:
                units[request_id] = pack_codes(frames)
        for request_id in batch:
            rows.setdefault(request_id, self._rows[request_id].status())
        return StepOutput(declare_sparse(list(units)) | {"unit": list(units.values())}, rows)

    def fingerprint(self) -> Fingerprint:
        return make_fingerprint(self._talker.files, torch.get_num_threads())

    # --- room ------------------------------------------------------------------------------------

    def _check_fits(self, speech: Speech) -> None:
        """Raises for a speech that could never be held, whoever else is there."""
        most = min(self._pool.num_tokens, self._talker.facts.max_positions)
        if speech.num_tokens > most:
            raise StageFailedError(
                f"the talker's prompt and speech may take {speech.num_tokens} positions, "
                f"and it has room for {most}"
            )

    def _lend(self) -> list[str]:
        """Room for those who wait, first come first served; who got some."""
        began = []
        while self._waiting:
            speech = self._rows[self._waiting[0]]
            speech.lease = self._pool.borrow(speech.num_tokens)
            if speech.lease is None:
                break
            began.append(self._waiting.popleft())
        return began

    # --- speech ----------------------------------------------------------------------------------

    def _say(self, speeches: Sequence[Speech]) -> None:
        """One more frame of each: prompts are read one by one, all others in one pass."""
        fresh = [speech for speech in speeches if not speech.has_begun]
        going = [speech for speech in speeches if speech.has_begun]
        hidden = [self._run([speech], speech.opening_inputs(self._talker)) for speech in fresh]
        if going:
            texts = torch.stack([speech.next_text(self._talker) for speech in going])
            said = torch.stack([speech.last_read for speech in going])
            hidden.append(self._run(going, (said + texts)[:, None]))
        if hidden:
            self._choose([*fresh, *going], torch.cat(hidden))

    def _run(self, speeches: Sequence[Speech], inputs: torch.Tensor) -> torch.Tensor:
        leases = [speech.lease for speech in speeches if speech.lease is not None]
        step = KvStep(self._pool, leases, inputs.shape[1])
        hidden = self._talker.run(inputs, step)
        step.done()
        return hidden

    def _choose(self, speeches: Sequence[Speech], hidden: torch.Tensor) -> None:
        samplings = [speech.sampling for speech in speeches]
        seeds = [nth_seed(speech.seed, speech.num_frames) for speech in speeches]
        said = torch.stack([speech.said for speech in speeches])
        logits = self._talker.logits(hidden)
        logits = penalise(logits, said, [s.repetition_penalty for s in samplings])
        logits = logits.masked_fill(self._banned, -torch.inf)
        codes = pick(logits, samplings, [draw(seed, 0) for seed in seeds])
        picked = codes.tolist()
        kept = [i for i, code in enumerate(picked) if code not in self._talker.facts.stop_codes]
        for place, speech in enumerate(speeches):
            speech.has_stopped = place not in kept
        if not kept:
            return
        frames, read = self._talker.complete(
            hidden[kept], codes[kept], [samplings[i] for i in kept], [seeds[i] for i in kept]
        )
        numbers = frames.cpu().numpy().astype(np.int32)
        for row, place in enumerate(kept):
            speeches[place].note_frame(numbers[row], picked[place], read[row])

    def _judge(self, speech: Speech) -> StageFailedError | None:
        """What is wrong with the speech so far, if anything."""
        if speech.has_stopped:
            if not speech.has_read_all:
                return StageFailedError("the talker stopped early, before the end of the text")
            return None
        most = self._limit.num_frames(speech, self._talker.facts.frame_ms)
        if speech.num_frames >= most:
            return StageFailedError(
                f"the talker did not stop: {speech.num_texts} tokens of text may take no more "
                f"than {most} frames"
            )
        return None


class TalkerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``checkpoint``: a folder or a hub id. ``device``: auto, cpu, cuda or cuda:N.

    ``gpu_memory_fraction``: above 0, at most 1; see ``pick_device``. ``dtype`` auto is that of the
    checkpoint. ``kv_cache_memory_mb`` bounds the keys and values of all requests. ``unit_frames``:
    how many frames go to the next stage together. ``max_ms_per_token`` and ``slack_ms`` bound a
    speech that never ends by its text; a token of text is about a syllable or a digit, and some
    digits are said as several words.
    """

    family: str
    checkpoint: str
    device: str = "auto"
    gpu_memory_fraction: float = 1.0
    dtype: str = "auto"
    kv_cache_memory_mb: int = 4096
    unit_frames: int = 1
    max_ms_per_token: float = 2000
    slack_ms: float = 10_000

    def __post_init__(self) -> None:
        if self.family not in _LOADERS:
            raise ValueError(f"family must be one of {', '.join(_LOADERS)}, got {self.family!r}")
        if self.dtype not in ("auto", "float32", "bfloat16", "float16"):
            raise ValueError("dtype must be auto, float32, bfloat16 or float16")
        for key in ("kv_cache_memory_mb", "unit_frames"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be at least 1")
        if self.max_ms_per_token <= 0 or self.slack_ms < 0:
            raise ValueError("max_ms_per_token must be above 0, and slack_ms at least 0")


def load(context: StageContext) -> TalkerStage:
    """The stage with its network. Raises ``ConfigError``."""
    options = context.read_options(TalkerOptions)
    device = pick_device(options.device, options.gpu_memory_fraction)
    dtype = options.dtype if options.dtype == "auto" else getattr(torch, options.dtype)
    try:
        talker = load_object(_LOADERS[options.family], "family")(options.checkpoint, dtype, device)
    except (OSError, ImportError) as error:
        message = f"cannot load the talker of {options.checkpoint!r}: {error}"
        raise ConfigError(message) from error
    pool = KvPool(talker.facts.kv_shape, options.kv_cache_memory_mb << 20, device)
    limit = LengthLimit(options.max_ms_per_token, options.slack_ms)
    return TalkerStage(talker, pool, limit, options.unit_frames, context.readiness)
