"""Pipeline files: strict, and loud about what is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from engine.errors import ConfigError
from engine.pipeline import (
    StageConfig,
    check_installed,
    list_pipelines,
    load_object,
    load_pipeline,
    load_voices,
    missing_packages,
    pipeline_path,
)

_LLM = "stages: [{{name: a, model: b, stage_type: llm, llm: {{{}}}}}]\n"
GOOD = """
name: good
description: one stage
stages:
  - name: only
    model: some.module:load
"""


@pytest.mark.parametrize("name", list_pipelines())
def test_every_shipped_pipeline_loads_with_its_functions_and_voices(name: str) -> None:
    pipeline = load_pipeline(name)
    assert pipeline.name == name
    voices = load_voices(pipeline)
    names = [n for voice in voices for n in (voice.id, *voice.aliases)]
    assert bool(voices) == (pipeline.stages[-1].engine_output_type == "audio")
    assert len(set(names)) == len(names)
    assert pipeline.prompt_transform_func is not None
    assert callable(load_object(pipeline.prompt_transform_func, "prompt_transform_func"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("colour: blue\n", r"unknown key 'colour'; known keys: .*stages"),
        ("sample_rate: 100\n", "sample_rate must be between"),
        ("sample_rate: fast\n", "Expected `int`"),
        ("stages: []\n", "at least one stage"),
        ("stages: [{name: a, model: b, rank: 1}]\n", r"stages\[0\]: unknown key 'rank'"),
        ("stages: [{name: a, model: b, num_replicas: 0}]\n", "num_replicas must be at least 1"),
        ("stages: [{name: a, model: b, stage_type: magic}]\n", "Invalid enum value 'magic'"),
        ("stages: [{name: a}]\n", "missing required field `model`"),
        ("stages: [{name: a, model: b}, {name: a, model: c}]\n", "different names"),
        (
            "stages: [{name: a, model: b, default_sampling: {heat: 1}}]\n",
            "unknown key 'heat'; known keys: .*temperature",
        ),
        ("stages: [{name: a, model: b, placement: remote, cpus: [[0]]}]\n", "pin local replicas"),
        ("stages: [{name: a, model: b, num_gpus: 1}]\n", "are for placement: ray"),
        ("stages: [{name: a, model: b, placement: ray, num_cpus: -1}]\n", "at least 0"),
        ("stages: [{name: 'join:a', model: b}]\n", "must not begin with 'join:'"),
        ("stages: [{name: a, model: b, stage_type: llm}]\n", "llm goes with stage_type: llm"),
        ("stages: [{name: a, model: b, llm: {checkpoint: c}}]\n", "llm goes with stage_type: llm"),
        (
            _LLM.format("checkpoint: c, colour: blue"),
            r"llm: unknown key 'colour'; known keys: .*loras",
        ),
        (_LLM.format("checkpoint: c, max_num_seqs: 0"), "max_num_seqs must be at least 1"),
        (_LLM.format("checkpoint: c, gpu_memory_utilization: 2"), "gpu_memory_utilization must be"),
        (_LLM.format("checkpoint: c, dtype: int3"), "Invalid enum value 'int3'"),
        (
            _LLM.format("checkpoint: c, loras: [{name: a, path: b}, {name: a, path: c}]"),
            "loras must have different names",
        ),
        (
            "stages: [{name: a, model: b, stage_type: llm, llm: {checkpoint: c},"
            " engine_output_type: audio}]\n",
            "gives latent or text, not audio",
        ),
        ("name: [\n", "not valid YAML"),
    ],
)
def test_a_wrong_file_names_the_key_and_what_is_allowed(
    tmp_path: Path, change: str, message: str
) -> None:
    lines = [line for line in GOOD.splitlines() if change.partition(":")[0] != line.split(":")[0]]
    text = GOOD if "stages" not in change else "\n".join(lines[:3]) + "\n"
    path = tmp_path / "bad.yaml"
    path.write_text(text + change)
    with pytest.raises(ConfigError, match=message):
        load_pipeline(str(path))


def test_a_good_file_loads_from_its_path(tmp_path: Path) -> None:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD)
    assert load_pipeline(str(path)).stages == (StageConfig(name="only", model="some.module:load"),)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown pipeline 'nope'; known: .*hibari"):
        pipeline_path("nope")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_pipeline("/nowhere/pipeline.yaml")


@pytest.mark.parametrize(
    ("dotted", "message"),
    [
        ("no.colon", "not of the form"),
        ("engine.nothing:x", "cannot load"),
        ("engine.errors:Nothing", "cannot load"),
    ],
)
def test_a_dotted_path_that_leads_nowhere_names_its_key(dotted: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"voices_func.*{message}"):
        load_object(dotted, "voices_func")


def test_a_pipeline_says_what_is_missing_and_how_to_install_it() -> None:
    pipeline = msgspec.structs.replace(
        load_pipeline("sine"), requires=("json", "no_such_package"), extra="more"
    )
    assert missing_packages(pipeline) == ["no_such_package"]
    with pytest.raises(ConfigError, match=r"needs no_such_package: pip install 'voxloom\[more\]'"):
        check_installed(pipeline)
    check_installed(load_pipeline("sine"))


def test_functions_get_the_options_of_their_pipeline() -> None:
    orpheus, llasa = (load_pipeline(f"lm-codec-{name}") for name in ("orpheus", "llasa"))
    assert orpheus.voices_func == llasa.voices_func
    assert [load_voices(pipeline)[0].id for pipeline in (orpheus, llasa)] == ["tara", "random"]


def test_options_that_a_function_does_not_take_are_refused() -> None:
    pipeline = msgspec.structs.replace(load_pipeline("sine"), options={"mood": "good"})
    with pytest.raises(ConfigError, match=r"options: .*'mood', in worker.models.sine.adapter"):
        load_voices(pipeline)
