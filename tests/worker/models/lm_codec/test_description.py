"""Descriptions: those that ship are whole, and a wrong one says what is wrong."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from engine.errors import ConfigError
from worker.models.lm_codec.description import (
    DESCRIPTION_DIR,
    list_descriptions,
    load_description,
)


@pytest.mark.parametrize("name", list_descriptions())
def test_a_description_that_ships_has_unique_voices_and_a_first_chunk_in_time(name: str) -> None:
    spec = load_description(name)
    assert spec.name == name
    names = [alias for voice in spec.voices for alias in (voice.id, *voice.aliases)]
    assert len(names) == len(set(names))
    assert "alloy" in names, "clients of OpenAI's API ask for it without being told"
    # What the model must have said before the first sound.
    assert (spec.codec.right_frames * spec.frame_ms + 80) < 400


def changed(tmp_path: Path, **changes: object) -> str:
    data = yaml.safe_load((DESCRIPTION_DIR / "orpheus-3b.yaml").read_text())
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data | changes))
    return str(path)


ORPHEUS = yaml.safe_load((DESCRIPTION_DIR / "orpheus-3b.yaml").read_text())
CODEC, LENGTHS, GUIDANCE = ORPHEUS["codec"], ORPHEUS["lengths"], ORPHEUS["guidance"]


def test_the_description_in_the_docs_is_one(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "lm-codec.md").read_text(encoding="utf-8")
    shown = page.partition("## A description\n")[2].partition("\nUnknown keys")[0]
    path = tmp_path / "mine.yaml"
    path.write_text(textwrap.dedent(shown), encoding="utf-8")
    assert load_description(str(path)).num_slots == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "unknown key 'colour'; known keys: codec, guidance"),
        ({"codec": CODEC | {"speed": 1}}, r"codec: unknown key 'speed'"),
        ({"codec": CODEC | {"kind": "flac"}}, "flac"),
        ({"codec": CODEC | {"codebook_sizes": [4096]}}, "each codebook from 0 to 0"),
        ({"codec": CODEC | {"left_frames": -1}}, "codec.left_frames must be at least 0"),
        ({"codec": CODEC | {"file": "x.pth"}}, "codec.file is for kind dac, not snac"),
        ({"voices": []}, "at least one voice"),
        ({"prompt": [{"text": "{mood}: {text}"}]}, "field 'mood' that voice 'tara'"),
        ({"prompt": [{"reference": True}]}, "needs a reference, and voice 'tara' has none"),
        ({"prompt": [{"text": "x", "reference": True}]}, "has one of: text, tokens, reference"),
        ({"tokens": {"frame": [], "stop": [1]}}, "at least one slot"),
        ({"lengths": LENGTHS | {"slack_ms": -1}}, "lengths.slack_ms must be at least 0"),
        ({"guidance": GUIDANCE | {"default_scale": 11.0}}, "default_scale must be from 0 to max"),
        ({"guidance": GUIDANCE | {"max_scale": 101.0}}, "at most 100"),
        ({"sampling": {"temperature": 9.0}}, "sampling: temperature must be from 0 to 2, got 9"),
        ({"sampling": {"extra": {"beams": 4}}}, "sampling: beams is not a sampling parameter"),
    ],
)
def test_a_wrong_description_says_what_is_wrong(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_description(changed(tmp_path, **changes))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown description 'orfeus'; known: .*orpheus-3b"):
        load_description("orfeus")
