"""The codec stage: chunks that join without a trace, replays, and requests that do not mix."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from engine.errors import ConfigError
from engine.messages import SamplingParams, StageRequest, StageUpdate
from engine.pipeline import PipelineConfig, StageConfig
from tests.worker.models.lm_codec.codecs import checkpoint
from tests.worker.models.lm_codec.describing import of_kind, with_context
from worker.models.lm_codec.codec import Codec, Place, load_codec
from worker.models.lm_codec.codec_stage import CodecStage, load
from worker.models.lm_codec.description import Description
from worker.models.lm_codec.units import make_unit, unpack_windows
from worker.models.lm_codec.windows import Window, WindowCutter
from worker.pcm import to_int16
from worker.stage_model import RowStatus, StageContext

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
SEED = 11
# Frames to each side that a frame reaches in the audio, measured by changing one (see below).
REACH = {"snac": 3, "dac": 10, "mimi": 15}
FloatArray = npt.NDArray[np.float32]


@functools.cache
def codec_of(kind: str) -> Codec:
    spec = describe(kind)
    columns = [0] * len(spec.codec.codebook_sizes)
    for slot in spec.tokens.frame:
        columns[slot.codebook] += 1
    return load_codec(spec.codec, tuple(columns), CPU)


def describe(kind: str) -> Description:
    reach = REACH.get(kind, 100)
    right = 0 if kind == "mimi" else reach
    return of_kind(kind, checkpoint(kind), left=reach, right=right)


def random_codes(kind: str, num_frames: int, seed: int = 0) -> npt.NDArray[np.int32]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 64, (num_frames, describe(kind).num_slots)).astype(np.int32)


def whole(kind: str, codes: npt.NDArray[np.int32], seed: int = SEED) -> FloatArray:
    """The audio of all frames at once."""
    tensor = torch.from_numpy(codes.astype(np.int64))[None]
    decoded: FloatArray = codec_of(kind).decode(tensor, [Place(seed, 0)])[0].numpy()
    return decoded


def units(
    spec: Description, codes: npt.NDArray[np.int32], burst: int = 3, seed: int = SEED
) -> list[dict[str, Any]]:
    """What the stage before sends for one passage whose frames come in bursts."""
    cutter = WindowCutter(spec)
    bursts = range(0, len(codes), burst)
    found = [cutter.feed(codes[start : start + burst]) for start in bursts] + [cutter.finish()]
    return [make_unit(windows, seed=seed, span=(0, 9)) for windows in found if windows]


def add(
    stage: CodecStage, name: str, sent: list[dict[str, Any]], first: int = 0, **options: Any
) -> None:
    stage.add(StageRequest(name, {}, SamplingParams(), 7, first_unit=first, **options))
    for number in range(first, len(sent)):
        final = number == len(sent) - 1
        stage.update(StageUpdate(name, number, sent[number], final=final))


def run(stage: CodecStage, name: str) -> tuple[npt.NDArray[np.int16], list[RowStatus]]:
    samples, rows = [np.zeros(0, np.int16)], []
    while stage.has_work(name):
        output = stage.step([name])
        samples += output.multimodal_outputs["audio"]
        rows.append(output.rows[name])
        if rows[-1].error is not None:
            raise rows[-1].error
        if rows[-1].finished:
            stage.abort(name)
    return np.concatenate(samples), rows


@pytest.mark.parametrize("kind", ["snac", "dac", "mimi"])
def test_chunks_are_the_whole_where_the_context_covers_what_a_frame_reaches(kind: str) -> None:
    codes = random_codes(kind, 70 if kind != "dac" else 300)
    windows = [w for unit in units(describe(kind), codes) for w in unpack_windows(unit["unit"])]
    chunks = [decode_window(kind, window) for window in windows]
    expected = whole(kind, codes)
    assert np.abs(expected).max() > 0.05, "silence would prove nothing"
    assert len(windows) > 5
    assert np.abs(np.concatenate(chunks) - expected).max() < 1e-5


def decode_window(kind: str, window: Window) -> FloatArray:
    size = describe(kind).codec.frame_samples
    tensor = torch.from_numpy(window.codes.astype(np.int64))[None]
    place = Place(SEED, window.first_frame - window.num_left)
    audio: FloatArray = codec_of(kind).decode(tensor, [place])[0].numpy()
    return audio[window.num_left * size : (window.num_left + window.num_core) * size]


@pytest.mark.parametrize("kind", ["snac", "dac", "mimi"])
def test_one_frame_less_of_context_is_heard(kind: str) -> None:
    """So the reach that the description states is not larger than it must be."""
    spec = describe(kind)
    left = 5 if kind == "mimi" else REACH[kind] - 1
    codes = random_codes(kind, 70)
    stage = CodecStage(codec_of(kind), CPU)
    less = with_context(spec, left, min(spec.codec.right_frames, left))
    add(stage, "r", units(less, codes))
    audio, _ = run(stage, "r")
    assert not np.array_equal(audio, to_int16(whole(kind, codes)))


@pytest.mark.parametrize("kind", ["neucodec", "xcodec2"])
def test_a_codec_with_attention_gives_the_whole_if_it_sees_the_whole(kind: str) -> None:
    codes = random_codes(kind, 90)
    stage = CodecStage(codec_of(kind), CPU)
    add(stage, "r", units(describe(kind), codes))
    audio, _ = run(stage, "r")
    expected = to_int16(whole(kind, codes))
    assert np.abs(expected).max() > 1000
    assert np.abs(audio.astype(int) - expected).max() <= 1


def test_positions_follow_the_samples_and_units() -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    sent = units(describe("snac"), random_codes("snac", 30))
    add(stage, "r", sent)
    audio, rows = run(stage, "r")
    assert len(audio) == 30 * 2048
    assert (rows[-1].end_position, rows[-1].done_position) == (len(audio), len(audio))
    assert rows[-1].units_done == len(sent)
    assert [row.finished for row in rows] == [False] * (len(rows) - 1) + [True]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.99])
def test_a_replay_from_the_last_whole_unit_goes_on_with_the_same_samples(share: float) -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    sent = units(describe("snac"), random_codes("snac", 60), burst=17)
    add(stage, "r", sent)
    audio, rows = run(stage, "r")
    skip = int(share * len(audio))
    done = [(r.units_done, r.done_position) for r in rows if r.done_position <= skip]
    first, start = done[-1] if done else (0, 0)
    add(stage, "again", sent, first, start_position=start, skip_position=skip)
    rest, rows_again = run(stage, "again")
    assert np.array_equal(rest, audio[skip:])
    assert rows_again[-1].end_position == len(audio)


def test_requests_of_one_batch_get_what_they_would_get_alone() -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    sent = {
        name: units(describe("snac"), random_codes("snac", 20 + n, n), burst=2 + n, seed=n)
        for n, name in enumerate("abcd")
    }
    alone = {}
    for name, parts in sent.items():
        add(stage, name, parts)
        alone[name] = run(stage, name)[0]
    for name, parts in sent.items():
        add(stage, name, parts)
    together: dict[str, list[npt.NDArray[np.int16]]] = {name: [] for name in sent}
    names = set(sent)
    while names:
        batch = sorted(name for name in names if stage.has_work(name))
        output = stage.step(batch)
        ids = output.multimodal_outputs["meta"]["req_id"]
        for name, samples in zip(ids, output.multimodal_outputs["audio"], strict=True):
            together[name].append(samples)
        names -= {name for name in batch if output.rows[name].finished}
    for name in sent:
        both = np.concatenate(together[name]).astype(int), alone[name].astype(int)
        assert np.abs(both[0] - both[1]).max() <= 1
    assert not np.array_equal(alone["a"][:2048], alone["b"][:2048])


def test_codes_outside_of_their_codebook_fail_their_request_alone() -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    codes = random_codes("snac", 4)
    spec = describe("snac")
    add(stage, "good", units(spec, codes))
    for name, code in (("high", 64), ("low", -1)):
        bad = codes.copy()
        bad[2, 4] = code
        add(stage, name, units(spec, bad))
    output = stage.step(["high", "good", "low"])
    assert output.multimodal_outputs["meta"]["req_id"] == ["good"]
    for name in ("high", "low"):
        assert "outside of its codebooks" in str(output.rows[name].error)
    assert len(output.multimodal_outputs["audio"][0]) == 2048


def test_a_request_closed_without_a_unit_ends_without_audio() -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    stage.add(StageRequest("r", {}, SamplingParams(), 7))
    assert not stage.has_work("r")
    stage.update(StageUpdate("r", 0, {}, final=True))
    audio, rows = run(stage, "r")
    assert len(audio) == 0
    assert rows[-1].finished
    assert stage.num_requests == 0


def test_each_chunk_tells_its_passage_and_the_last_one_its_end() -> None:
    stage = CodecStage(codec_of("snac"), CPU)
    add(stage, "r", units(describe("snac"), random_codes("snac", 10)))
    told = []
    while stage.has_work("r"):
        output = stage.step(["r"])
        told += output.multimodal_outputs["sentence"]
        if output.rows["r"].finished:
            stage.abort("r")
    assert told[-1] == (0, 9, True)
    assert set(told[:-1]) == {(0, 9, False)}


def test_snac_decodes_as_its_package_does_where_there_is_no_noise() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from snac import SNAC
    folder = checkpoint("snac")
    package = SNAC.from_pretrained(str(folder))
    codes = torch.from_numpy(random_codes("snac", 12).astype(np.int64))[None]
    mine = load_codec(describe("snac").codec, (1, 2, 4), CPU)
    for model in (package, mine._model):  # type: ignore[attr-defined]
        for name, weight in model.named_parameters():
            if ".linear." in name and "original0" in name:
                weight.data.zero_()
    books = [book.flatten(1) for book in torch.split(codes, [1, 2, 4], dim=2)]
    with torch.inference_mode():
        expected = package.decode(books)[:, 0]
    assert expected.abs().max() > 0.05
    assert torch.allclose(mine.decode(codes, [Place(1, 0)]), expected, atol=1e-6)


def test_snac_noise_comes_from_the_seed_and_the_place_alone() -> None:
    codes = random_codes("snac", 8)
    assert np.array_equal(whole("snac", codes), whole("snac", codes))
    assert np.abs(whole("snac", codes, 1) - whole("snac", codes, 2)).max() > 1e-3


def context(**options: Any) -> StageContext:
    stage = StageConfig(name="codec", model="x:y", engine_output_type="audio", options=options)
    return StageContext(PipelineConfig(name="p", description="d", stages=(stage,)), stage, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "missing required field `description`"),
        (
            {"description": "orpheus-3b", "dtype": "x"},
            "unknown field .dtype.; known: description",
        ),
        ({"description": "orpheus-3b", "device": "gpu"}, "device must be auto, cpu"),
        (
            {"description": "orpheus-3b", "gpu_memory_fraction": 2},
            "gpu_memory_fraction must be above 0 and at most 1, got 2",
        ),
        ({"description": "llasa-1b"}, "sample_rate must be 16000, as llasa-1b has it, got 24000"),
    ],
)
def test_wrong_options_say_what_is_wrong(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(context(**options))


def test_a_codec_that_is_not_as_described_is_refused() -> None:
    spec = describe("dac").codec
    with pytest.raises(ConfigError, match=r"codebook_sizes is \(64,\), described as \(64, 64\)"):
        load_codec(spec, (1,), CPU)


def test_a_codec_that_is_not_there_is_one_clear_sentence(tmp_path: Path) -> None:
    spec = of_kind("snac", tmp_path, left=3, right=3).codec
    with pytest.raises(ConfigError, match=r"cannot load codec .* has no config.json"):
        load_codec(spec, (1, 2, 4), CPU)
