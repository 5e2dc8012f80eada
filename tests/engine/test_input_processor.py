"""Input processing: checked, transformed on a copy, nothing forged, nothing left behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.errors import ConfigError, InvalidRequestError
from engine.input_processor import (
    AddRequest,
    InputProcessor,
    ProcessedInput,
    remove_artifacts,
)
from engine.messages import Prompt, SamplingParams
from engine.pipeline import LlmConfig, LoraModule, PipelineConfig, StageConfig

SEEN: list[Prompt] = []


def transform(prompt: Prompt) -> Prompt:
    SEEN.append(dict(prompt))
    prompt["nested"]["changed"] = True
    prompt["request_id"] = "forged"
    return prompt | {"warnings": ["mind the gap"], "artifact_dirs": ["some/folder"]}


def make_folder(prompt: Prompt) -> Prompt:
    folder = Path(prompt.pop("folder"))
    if folder.exists():
        raise InvalidRequestError("folder must be new", param="folder")
    folder.mkdir()
    return prompt | {"artifact_dirs": [str(folder)]}


def pipeline(**options: Any) -> PipelineConfig:
    stages = (
        StageConfig(name="a", model="m:m", default_sampling=SamplingParams(seed=7)),
        StageConfig(name="b", model="m:m"),
    )
    return PipelineConfig(name="p", description="d", stages=stages, **options)


def process(options: dict[str, Any] | None = None, **arguments: Any) -> ProcessedInput:
    given: dict[str, Any] = {"request_id": "r", "prompt": {"text": "hi", "nested": {}}}
    request = AddRequest(**(given | {"final_stage_id": 1} | arguments))
    return InputProcessor(pipeline(**(options or {}))).process(request)


TRANSFORM = {"prompt_transform_func": f"{__name__}:transform"}


def test_the_original_prompt_is_untouched_by_the_transform() -> None:
    prompt = {"text": "hi", "nested": {}}
    submission = process(TRANSFORM, prompt=prompt).submission
    assert submission.prompt["nested"] == {"changed": True}
    assert submission.original_prompt["nested"] == {}
    assert prompt == {"text": "hi", "nested": {}}


def test_the_request_id_is_in_the_prompt_before_and_after_the_transform() -> None:
    SEEN.clear()
    submission = process(TRANSFORM).submission
    assert SEEN[0]["request_id"] == "r"
    assert submission.prompt["request_id"] == "r"


def test_what_only_a_transform_may_set_is_dropped_from_a_clients_prompt() -> None:
    SEEN.clear()
    forged = {"text": "hi", "nested": {}, "warnings": ["x"], "artifact_dirs": ["/etc"]}
    process(TRANSFORM, prompt=forged)
    assert "warnings" not in SEEN[0]
    assert "artifact_dirs" not in SEEN[0]
    assert process(prompt=forged).artifact_dirs == ()


def test_warnings_and_artifacts_stay_with_the_caller() -> None:
    processed = process(TRANSFORM)
    assert processed.warnings == ("mind the gap",)
    assert processed.artifact_dirs == (Path("some/folder"),)
    assert "artifact_dirs" not in processed.submission.prompt


def test_artifacts_are_removed_with_all_they_hold(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    (folder / "deep").mkdir(parents=True)
    remove_artifacts([folder, tmp_path / "never-made"])
    assert not folder.exists()


def test_sampling_defaults_to_the_pipelines() -> None:
    submission = process().submission
    assert submission.sampling_params_list == [SamplingParams(seed=7), SamplingParams()]
    assert submission.seed == 7


def test_without_a_seed_one_is_drawn_for_all_stages() -> None:
    given = [SamplingParams(), SamplingParams()]
    seeds = {process(sampling_params_list=given).submission.seed for _ in range(5)}
    assert len(seeds) == 5


def test_a_text_stands_for_a_prompt_with_that_text() -> None:
    assert process(prompt="hello").submission.prompt == {"text": "hello", "request_id": "r"}


def wrong(name: str, value: Any, message: str) -> Any:
    return pytest.param(name, value, message, id=f"{name}={str(value)[:20]}")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        wrong("request_id", "", "1 to 256 characters"),
        wrong("request_id", "x" * 257, "1 to 256 characters"),
        wrong("request_id", 5, "1 to 256 characters"),
        wrong("prompt", 5, "must be a text or a dict, got int"),
        wrong("sampling_params_list", [], "one entry per stage, 2 here, got 0"),
        wrong("sampling_params_list", [SamplingParams()], "got 1"),
        wrong("final_stage_id", 2, "between 0 and 1, got 2"),
        wrong("final_stage_id", -1, "between 0 and 1"),
        wrong("first_stage_id", 2, "between 0 and 1, got 2"),
        wrong("first_stage_id", True, "between 0 and 1, got True"),
        wrong("final_output_stage_ids", [], "stage ids from 0 to 1"),
        wrong("final_output_stage_ids", [0, 5], "stage ids from 0 to 1"),
        wrong("lora_request", "x", "lora_request cannot be used"),
        wrong("tokenization_kwargs", {"a": 1}, "tokenization_kwargs cannot be used"),
        wrong("reasoning_ended", True, "reasoning_ended cannot be used"),
        wrong("final_stage_id", "1", "between 0 and 1, got '1'"),
        wrong("final_stage_id", True, "between 0 and 1, got True"),
        wrong("final_output_stage_ids", [0.5], "stage ids from 0 to 1"),
        wrong("final_output_stage_ids", [True], "stage ids from 0 to 1"),
        wrong("arrival_time", "now", "a finite number of seconds, got 'now'"),
        wrong("deadline", float("nan"), "a finite number of seconds, got nan"),
        wrong("deadline", True, "a finite number of seconds"),
        wrong("priority", 1.5, "a 64-bit integer, got 1.5"),
        wrong("priority", 2**70, "a 64-bit integer"),
        wrong("data_parallel_rank", "a", "an integer of at least 0, got 'a'"),
        wrong("data_parallel_rank", -1, "an integer of at least 0, got -1"),
        wrong("trace_headers", {"traceparent": 5}, "cannot be sent to a stage: .*str"),
        wrong("trace_headers", ["traceparent"], "a mapping of header names to texts, got list"),
        wrong("sampling_params_list", [None, None], "a list of SamplingParams, got NoneType"),
        wrong("prompt", {"text": "x", 1: "y"}, "cannot be sent to a stage: .*str"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message) as caught:
        process(**{name: value})
    assert caught.value.param == name
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("name", "value"), [("resumable", True), ("data_parallel_rank", 0), ("lora_request", "x")]
)
def test_what_stage_0_acts_on_is_refused_where_it_has_no_part(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="is for stage 0, and") as caught:
        process(first_stage_id=1, **{name: value})
    assert caught.value.param == name


def test_a_stage_before_the_first_has_no_output_to_ask_for() -> None:
    with pytest.raises(InvalidRequestError, match="stage ids from 1 to 1"):
        process(first_stage_id=1, final_output_stage_ids=[0, 1])


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"deeper": value}
    return value


@pytest.mark.parametrize("value", [nested(100_000), 2**70, "\ud800", object()])
def test_what_a_stage_could_not_read_is_refused_before_it_is_queued(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be sent to a stage"):
        process(prompt={"text": "x", "more": value})


@pytest.mark.parametrize(
    "params",
    [SamplingParams(seed="x"), SamplingParams(seed=1.5), SamplingParams(top_k="many")],  # type: ignore[arg-type]
)
def test_sampling_fields_of_a_wrong_type_are_refused(params: SamplingParams) -> None:
    with pytest.raises(InvalidRequestError):
        process(sampling_params_list=[params, SamplingParams()])


@pytest.mark.parametrize("seed", [2**63, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_refused(seed: int) -> None:
    given = [SamplingParams(seed=seed), SamplingParams()]
    with pytest.raises(InvalidRequestError) as caught:
        process(sampling_params_list=given)
    assert caught.value.param == "seed"


def test_a_transform_that_does_not_exist_fails_when_the_engine_is_made() -> None:
    with pytest.raises(ConfigError, match="prompt_transform_func"):
        InputProcessor(pipeline(prompt_transform_func="nowhere:nothing"))


def test_a_lora_that_the_language_model_declares_is_passed_on_and_another_refused() -> None:
    llm = LlmConfig(checkpoint="c", loras=(LoraModule(name="bright", path="p"),))
    stages = (StageConfig(name="a", model="m:m", stage_type="llm", llm=llm),)
    processor = InputProcessor(PipelineConfig(name="p", description="d", stages=stages))
    processed = processor.process(AddRequest("r", "hi", lora_request="bright"))
    assert processed.submission.lora == "bright"
    with pytest.raises(InvalidRequestError, match="must be one of bright, got 'dark'") as caught:
        processor.process(AddRequest("r", "hi", lora_request="dark"))
    assert caught.value.param == "lora_request"


def test_a_check_refuses_as_a_request_would_be_and_keeps_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "artifact"
    processor = InputProcessor(pipeline(prompt_transform_func=f"{__name__}:make_folder"))
    prompt = {"text": "hi", "folder": str(folder)}
    processor.check(prompt)
    assert prompt == {"text": "hi", "folder": str(folder)}
    assert not folder.exists()
    with pytest.raises(InvalidRequestError, match="folder must be new"):
        processor.check({"text": "hi", "folder": str(tmp_path)})
