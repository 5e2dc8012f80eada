"""Model names."""

from __future__ import annotations

import msgspec
import pytest

from engine.errors import NotFoundError
from server.catalog import ModelCatalog, describe_voice
from tests.server.fake_engine import PIPELINE, VOICES


@pytest.mark.parametrize(
    "name",
    ["sine", "org/sine", "tts-1", "tts-1-hd", "gpt-4o-mini-tts", "gpt-4o-mini-tts-2025-12-15"],
)
def test_own_names_and_openais_are_known(name: str) -> None:
    assert ModelCatalog(PIPELINE).describe(name)["id"] == name


@pytest.mark.parametrize("name", ["", "TTS-1", "gpt-4o-mini-tts-", "gpt-4o-mini-tts-2025-12-15\n"])
def test_anything_else_is_not_found_and_the_known_are_listed(name: str) -> None:
    with pytest.raises(NotFoundError, match="known: sine, org/sine, tts-1") as caught:
        ModelCatalog(PIPELINE).check(name)

    assert caught.value.code == "model_not_found"


def test_a_pipeline_without_model_names_goes_by_its_own() -> None:
    assert ModelCatalog(msgspec.structs.replace(PIPELINE, models=())).ids[0] == "sine"


def test_a_voice_keeps_its_options_to_itself() -> None:
    assert describe_voice(VOICES[0]) == {
        "id": "anna",
        "name": "Anna",
        "language": "en",
        "gender": "female",
        "description": "clear",
        "aliases": ["alloy", "nova"],
    }
