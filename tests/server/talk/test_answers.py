"""Which pipelines hold conversations, and where in them an answer begins."""

from __future__ import annotations

import pytest

from engine.pipeline import PipelineConfig, StageConfig, load_pipeline
from server.talk.answers import find_stages


def pipeline(*names: str) -> PipelineConfig:
    stages = tuple(StageConfig(name=name, model="x:y") for name in names)
    return PipelineConfig(name="p", description="d", stages=stages)


@pytest.mark.parametrize("name", ["cascade", "cascade-vllm"])
def test_a_cascade_answers_what_is_written_down(name: str) -> None:
    stages = find_stages(load_pipeline(name))
    assert stages is not None
    assert (stages.writing, stages.answering, stages.speaking) == (1, 2, 4)
    assert stages.is_live
    assert not stages.hears_itself


@pytest.mark.parametrize("name", ["qwen2_5-omni", "qwen3-omni"])
def test_an_omni_model_answers_what_it_hears(name: str) -> None:
    stages = find_stages(load_pipeline(name))
    assert stages is not None
    assert (stages.writing, stages.answering, stages.thinking, stages.speaking) == (None, 1, 2, 4)
    assert stages.is_live
    assert stages.hears_itself


def test_a_model_with_nothing_in_front_that_finds_turns_only_chats() -> None:
    stages = find_stages(pipeline("hear", "think", "talk", "code2wav"))
    assert stages is not None
    assert (stages.answering, stages.is_live) == (0, False)


@pytest.mark.parametrize("names", [("vad", "whisper"), ("think", "speak"), ("prosody",)])
def test_others_hold_no_conversation(names: tuple[str, ...]) -> None:
    assert find_stages(pipeline(*names)) is None
