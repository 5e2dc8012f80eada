"""Text to sound through the whole engine: vLLM and the codec, against plain loops."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import SamplingParams
from engine.pipeline import PipelineConfig, load_pipeline
from tests.worker.models.lm_codec.checkpoints import talking_orpheus
from tests.worker.models.lm_codec.codecs import checkpoint
from tests.worker.vllm.engines import RunningEngine, running_engine
from worker.models.lm_codec.codec import Place, load_codec
from worker.models.lm_codec.codes import CodeReader
from worker.models.lm_codec.description import Description, load_description
from worker.models.lm_codec.prompts import PromptBuilder
from worker.pcm import to_int16
from worker.seeds import nth_seed

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("default")]

SEED = 5
GREEDY: dict[str, Any] = {"temperature": 0.0, "extra": {"repetition_penalty": 1.0}}
TEXTS = ("Hi there.", "Good morning, Anna!", "One two three four five six.", "Is it you?")
SCALE = 2.0


@pytest.fixture(scope="module")
def description_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orpheus as it ships, but for where its codec lies."""
    spec = load_description("orpheus-3b")
    codec = msgspec.structs.replace(spec.codec, model=str(checkpoint("snac_24khz")))
    lengths = msgspec.structs.replace(spec.lengths, max_chars=30, slack_ms=1000)
    path = tmp_path_factory.mktemp("described") / "orpheus.yaml"
    changed = msgspec.structs.replace(spec, codec=codec, lengths=lengths)
    path.write_bytes(msgspec.yaml.encode(changed))
    return path


def small_orpheus(description: Path) -> PipelineConfig:
    """The pipeline as it ships, but for its checkpoints, and what a CPU cannot do."""
    shipped = load_pipeline("lm-codec-orpheus")
    lm, codec = shipped.stages
    assert lm.llm is not None
    llm = msgspec.structs.replace(
        lm.llm,
        checkpoint=str(talking_orpheus()),
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=16,
        kv_cache_memory_mb=64,
        enforce_eager=True,
    )
    options = {"description": str(description)}
    lm = msgspec.structs.replace(lm, llm=llm, options=options)
    codec = msgspec.structs.replace(codec, options=options | {"device": "cpu"})
    return msgspec.structs.replace(shipped, stages=(lm, codec), options=options)


@pytest.fixture(scope="module")
def running(description_path: Path) -> Iterator[RunningEngine]:
    with running_engine(small_orpheus(description_path)) as engine:
        yield engine


async def speak(running: RunningEngine, name: str, text: str, **sampling: Any) -> list[Any]:
    """The chunks of a request, int16."""
    given = SamplingParams(**{"seed": SEED} | GREEDY | sampling)
    outputs = running.engine.generate(
        name, {"text": text}, sampling_params_list=[given, SamplingParams()], final_stage_id=1
    )
    async with contextlib.aclosing(outputs) as opened:
        audio = [output.audio async for output in opened]
    return [np.frombuffer(chunk, np.int16) for chunk in audio if chunk is not None]


# --- the plain loop ------------------------------------------------------------------------------


@functools.cache
def model() -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(talking_orpheus(), dtype=torch.float32).eval()


@torch.inference_mode()
def say(prompts: list[list[int]], scale: float, stop: int) -> list[int]:
    """Greedy tokens of one prompt, or of two by ``u + scale * (c - u)``, without the stop."""
    caches: list[Any] = [None] * len(prompts)
    inputs, tokens = [list(prompt) for prompt in prompts], list[int]()
    while True:
        logits = []
        for row, ids in enumerate(inputs):
            out = model()(torch.tensor([ids]), past_key_values=caches[row], use_cache=True)
            caches[row] = out.past_key_values
            logits.append(out.logits[0, -1].float())
        blend = logits[0] if len(logits) == 1 else logits[1] + scale * (logits[0] - logits[1])
        token = int(blend.argmax())
        if token == stop:
            return tokens
        tokens.append(token)
        inputs = [[token] for _ in prompts]


def plain_audio(
    spec: Description, path: Path, text: str, number: int = 0, scale: float | None = None
) -> npt.NDArray[np.int16]:
    """All frames of one passage decoded at once."""
    builder = PromptBuilder.load(str(path), spec, str(talking_orpheus()))
    fields = {"speaker": "tara", "text": text}
    prompts = [builder.build(spec.prompt, spec.voices[0], fields)]
    if scale is not None:
        assert spec.guidance is not None
        prompts.append(builder.build(spec.guidance.null_prompt, spec.voices[0], fields))
    tokens = say(prompts, scale or 1.0, builder.stop_token_ids[0])
    codes = torch.from_numpy(CodeReader(builder.layout).feed(tokens).astype(np.int64))[None]
    codec = load_codec(spec.codec, (1, 2, 4), torch.device("cpu"))
    place = Place(nth_seed(SEED, number), 0)
    return to_int16(codec.decode(codes, [place])[0].numpy())


def assert_same(chunks: list[Any], expected: npt.NDArray[np.int16]) -> None:
    audio = np.concatenate(chunks).astype(int)
    assert np.abs(expected).max() > 300, "silence would prove nothing"
    assert len(audio) == len(expected)
    assert np.abs(audio - expected).max() <= 1


# --- what is promised ----------------------------------------------------------------------------


def test_what_is_heard_is_what_a_plain_loop_makes_in_chunks_from_80_ms_on(
    running: RunningEngine, description_path: Path
) -> None:
    spec = load_description(str(description_path))

    async def scenario() -> list[list[Any]]:
        return await asyncio.gather(*(speak(running, text, text) for text in TEXTS))

    for text, chunks in zip(TEXTS, running.run(scenario()), strict=True):
        assert_same(chunks, plain_audio(spec, description_path, text))
        assert len(chunks) > 2
        assert len(chunks[0]) == 2048


def test_guided_speech_is_that_of_a_two_pass_loop(
    running: RunningEngine, description_path: Path
) -> None:
    spec = load_description(str(description_path))

    async def scenario() -> list[list[Any]]:
        jobs = [speak(running, f"g{text}", text, guidance_scale=SCALE) for text in TEXTS[:2]]
        return await asyncio.gather(*jobs)

    for text, chunks in zip(TEXTS, running.run(scenario()), strict=False):
        guided = plain_audio(spec, description_path, text, scale=SCALE)
        assert_same(chunks, guided)
        assert not np.array_equal(guided, plain_audio(spec, description_path, text))


def test_a_longer_text_is_said_passage_by_passage(
    running: RunningEngine, description_path: Path
) -> None:
    spec = load_description(str(description_path))
    parts = ("This is the first of them.", "And this one is the second.")
    chunks = running.run(speak(running, "long", " ".join(parts)))
    expected = [plain_audio(spec, description_path, part, n) for n, part in enumerate(parts)]
    assert_same(chunks, np.concatenate(expected))


@pytest.mark.parametrize(
    ("text", "sampling", "error", "message"),
    [
        ("Hi.", {"max_tokens": 15}, StageFailedError, "the model did not stop"),
        ("Hi.", {"extra": {"stop_token_ids": [128257]}}, StageFailedError, "said token 128258"),
        ("Hi.", {"guidance_scale": float("nan")}, InvalidRequestError, "guidance_scale must be"),
        ("Hi.", {"temperature": 9.0}, InvalidRequestError, "temperature must be"),
    ],
)
def test_a_stream_that_is_no_speech_ends_in_an_error_and_harms_nobody(
    running: RunningEngine,
    description_path: Path,
    text: str,
    sampling: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    spec = load_description(str(description_path))

    async def scenario() -> list[Any]:
        good = asyncio.create_task(speak(running, "good", TEXTS[0]))
        with pytest.raises(error, match=message):
            await speak(running, "bad", text, **sampling)
        return await good

    assert_same(running.run(scenario()), plain_audio(spec, description_path, TEXTS[0]))
