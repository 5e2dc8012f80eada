"""The caller's side of the omni models: voices by all their names, and whom a prompt is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.errors import ConfigError, InvalidRequestError
from engine.pipeline import load_pipeline, load_voices
from worker.models.hibari.adapter import list_voices as hibari_voices
from worker.models.qwen_omni.adapter import list_voices, transform_prompt

VOICES = ["Chelsie", "Ethan"]
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "audio"}]}]
DETECTION = {"threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}


@pytest.mark.parametrize("name", ["qwen2_5-omni", "qwen3-omni"])
def test_each_of_openais_names_is_one_speaker(name: str) -> None:
    names = [alias for voice in load_voices(load_pipeline(name)) for alias in voice.aliases]
    assert sorted(names) == sorted(alias for voice in hibari_voices() for alias in voice.aliases)


def test_speakers_have_no_other_names_unless_they_are_given() -> None:
    voices = list_voices(VOICES, {"Ethan": ["onyx"]})
    assert [(voice.id, voice.aliases) for voice in voices] == [
        ("chelsie", ()),
        ("ethan", ("onyx",)),
    ]
    assert [voice.aliases for voice in list_voices(VOICES)] == [(), ()]
    with pytest.raises(ConfigError, match=r"aliases: 'Eva' must be one of .*Chelsie, Ethan"):
        list_voices(VOICES, {"Eva": ["nova"]})


def test_a_question_is_heard_and_a_live_stream_is_listened_to() -> None:
    clip = np.zeros(1600, np.int16)
    assert transform_prompt({"messages": MESSAGES, "clips": [clip]}, VOICES) == {"clips": [clip]}
    live = transform_prompt({"mode": "live", "detection": DETECTION}, VOICES)
    assert (live["mode"], live["detection"]) == ("live", DETECTION)
    with pytest.raises(InvalidRequestError, match="mode"):
        transform_prompt({"mode": "dead"}, VOICES)
