"""Small models of the families that ship, as pipelines, and as plain loops to compare them with."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import torch

from engine.async_omni_engine import AsyncOmniEngine
from engine.messages import SamplingParams
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig, load_pipeline
from tests.worker.models.lm_codec import codecs
from tests.worker.models.lm_codec.checkpoints import (
    talking_llasa,
    talking_orpheus,
    talking_outetts,
)
from worker.models.lm_codec.codec import Place, load_codec
from worker.models.lm_codec.codes import CodeReader
from worker.models.lm_codec.description import Description, load_description
from worker.models.lm_codec.prompts import PromptBuilder
from worker.pcm import to_int16
from worker.seeds import nth_seed

SEED = 5
Samples = npt.NDArray[np.int16]


@dataclass(frozen=True)
class Family:
    """A description and a pipeline as they ship, but for their checkpoints and a CPU's limits.

    ``codec``: what else differs in the small codec. ``columns``: codes of each codebook per frame.
    """

    description: str
    checkpoint: Callable[[], Path]
    codec_kind: str
    columns: tuple[int, ...]
    codec: dict[str, Any] = field(default_factory=dict)

    def write_description(self, folder: Path) -> Path:
        spec = load_description(self.description)
        model = str(codecs.checkpoint(self.codec_kind))
        codec = msgspec.structs.replace(spec.codec, model=model, **self.codec)
        lengths = msgspec.structs.replace(spec.lengths, max_chars=30, slack_ms=1000)
        path = folder / f"{self.description}.yaml"
        changed = msgspec.structs.replace(spec, codec=codec, lengths=lengths)
        path.write_bytes(msgspec.yaml.encode(changed))
        return path

    def pipeline(self, description: Path) -> PipelineConfig:
        shipped = load_pipeline(f"lm-codec-{self.description.partition('-')[0]}")
        lm, codec = shipped.stages
        assert lm.llm is not None
        llm = msgspec.structs.replace(
            lm.llm,
            checkpoint=str(self.checkpoint()),
            dtype="float32",
            max_model_len=1024,
            max_num_seqs=16,
            kv_cache_memory_mb=64,
            enforce_eager=True,
        )
        options = {"description": str(description)}
        lm = msgspec.structs.replace(lm, llm=llm, options=options, replica_deadline_s=300.0)
        codec = msgspec.structs.replace(codec, options=options | {"device": "cpu"})
        return msgspec.structs.replace(shipped, stages=(lm, codec), options=options)

    def plain_audio(
        self, path: Path, text: str, number: int = 0, scale: float | None = None
    ) -> Samples:
        """All frames of one passage by a plain loop, decoded at once."""
        spec = load_description(str(path))
        builder = _builder(str(path), self.checkpoint())
        prompts = self._prompts(spec, builder, text, is_guided=scale is not None)
        tokens = say(self.checkpoint(), prompts, scale or 1.0, builder.stop_token_ids[0])
        codes = torch.from_numpy(CodeReader(builder.layout).feed(tokens).astype(np.int64))[None]
        codec = load_codec(spec.codec, self.columns, torch.device("cpu"))
        return to_int16(codec.decode(codes, [Place(nth_seed(SEED, number), 0)])[0].numpy())

    def _prompts(
        self, spec: Description, builder: PromptBuilder, text: str, *, is_guided: bool
    ) -> list[list[int]]:
        voice = spec.voices[0]
        fields = dict(voice.fields) | {"text": text}
        prompts = [builder.build(spec.prompt, voice, fields)]
        if is_guided:
            assert spec.guidance is not None
            prompts.append(builder.build(spec.guidance.null_prompt, voice, fields))
        return prompts


@functools.cache
def _builder(path: str, checkpoint: Path) -> PromptBuilder:
    """Loading a tokenizer of 28,683 added tokens takes seconds."""
    return PromptBuilder.load(path, load_description(path), str(checkpoint))


ORPHEUS = Family("orpheus-3b", talking_orpheus, "snac_24khz", (1, 2, 4))
LLASA = Family(
    "llasa-1b",
    talking_llasa,
    "xcodec2",
    (1,),
    # Its decoder attends to all frames at once: a chunk is the whole's only if its window is.
    {"codebook_sizes": (64,), "left_frames": 1000, "right_frames": 1000},
)
OUTETTS = Family(
    "outetts-0.6b", talking_outetts, "dac", (1, 1), {"codebook_sizes": (64, 64), "file": None}
)


@functools.cache
def _model(checkpoint: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()


@torch.inference_mode()
def say(checkpoint: Path, prompts: list[list[int]], scale: float, stop: int) -> list[int]:
    """Greedy tokens of one prompt, or of two by ``u + scale * (c - u)``, without the stop."""
    caches: list[Any] = [None] * len(prompts)
    inputs, tokens = [list(prompt) for prompt in prompts], list[int]()
    while True:
        logits = []
        for row, ids in enumerate(inputs):
            out = _model(checkpoint)(
                torch.tensor([ids]), past_key_values=caches[row], use_cache=True
            )
            caches[row] = out.past_key_values
            logits.append(out.logits[0, -1].float())
        blend = logits[0] if len(logits) == 1 else logits[1] + scale * (logits[0] - logits[1])
        token = int(blend.argmax())
        if token == stop:
            return tokens
        tokens.append(token)
        inputs = [[token] for _ in prompts]


def greedy(**changes: Any) -> SamplingParams:
    """Without what would make tokens depend on chance, or on tokens before them."""
    given: dict[str, Any] = {"seed": SEED, "temperature": 0.0}
    return SamplingParams(**given | {"extra": {"repetition_penalty": 1.0}} | changes)


def samples_of(outputs: Sequence[OmniRequestOutput]) -> list[Samples]:
    return [np.frombuffer(o.audio, np.int16) for o in outputs if o.audio is not None]


async def speak(engine: AsyncOmniEngine, name: str, text: str, **sampling: Any) -> list[Samples]:
    """The chunks of a request."""
    outputs = engine.generate(
        name,
        {"text": text},
        sampling_params_list=[greedy(**sampling), SamplingParams()],
        final_stage_id=1,
    )
    async with contextlib.aclosing(outputs) as opened:
        return samples_of([output async for output in opened])


def assert_same(chunks: Sequence[Samples], expected: Samples) -> None:
    audio = np.concatenate(chunks).astype(int)
    assert np.abs(expected).max() > 300, "silence would prove nothing"
    assert len(audio) == len(expected)
    assert np.abs(audio - expected).max() <= 1
