"""Voices whose model files the user has fetched, and how a prompt chooses among voices."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.async_omni_engine import AsyncOmniEngine
from engine.errors import InvalidRequestError
from engine.pipeline import load_pipeline
from tests.engine.running import Heard, run, running
from worker.models.hibari.adapter import all_voices, list_voices, transform_prompt
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.shape import VoiceShape

# The names that the hibari package gives to its downloads.
FILES = {
    "emma": "bf_emma.int8.onnx",
    "fable-gb": "bm_fable.int8.onnx",
    "fenrir": "am_fenrir_v2.int8.onnx",
    "kore": "af_kore.int8.onnx",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in which the voices are looked up."""
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    return tmp_path


def _listed() -> list[str]:
    return [voice.id for voice in list_voices()]


def test_a_voice_is_listed_once_its_file_is_there(home: Path) -> None:
    before = _listed()
    assert not FILES.keys() & set(before)
    for voice_id, file_name in FILES.items():
        (home / file_name).symlink_to(bundled_voice())
        assert voice_id in _listed()
    assert _listed()[: len(before)] == before


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\x08\x07", bytes(1000)])
def test_a_file_that_is_no_voice_is_left_out_with_one_sentence(
    home: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (home / FILES["kore"]).write_bytes(content)

    assert "kore" not in _listed()
    assert "kore" not in _listed()
    (record,) = caplog.records
    assert "a voice is left out: " in record.getMessage()
    assert FILES["kore"] in record.getMessage()
    assert "\n" not in record.getMessage()


def test_a_voice_whose_file_is_mended_is_listed(home: Path) -> None:
    path = home / FILES["kore"]
    path.write_bytes(bundled_voice().read_bytes()[:100_000])
    assert "kore" not in _listed()
    shutil.copy(bundled_voice(), path)
    assert "kore" in _listed()


def test_a_folder_in_the_files_place_is_not_a_voice(home: Path) -> None:
    (home / FILES["kore"]).mkdir()
    assert "kore" not in _listed()


def test_an_absent_voice_is_refused_with_the_names_of_the_present(home: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"unknown voice 'emma'; .*: heart, ") as caught:
        transform_prompt({"text": "Hello.", "voice": "emma"})
    assert caught.value.param == "voice"


def test_british_voices_read_british_english_unless_told_otherwise(home: Path) -> None:
    (home / FILES["emma"]).symlink_to(bundled_voice())
    prompt = {"text": "Hello.", "voice": "emma"}

    assert transform_prompt(prompt)["british"] is True
    assert transform_prompt(prompt | {"language": "en"})["british"] is True
    assert transform_prompt(prompt | {"language": "en-US"})["british"] is False
    assert transform_prompt({"text": "Hello."})["british"] is False
    assert transform_prompt({"text": "Hello.", "language": "en-GB"})["british"] is True


def test_a_voices_pace_multiplies_the_asked_speed() -> None:
    for voice in all_voices():
        if "model_file" not in voice.options:
            prompt = {"text": "Hello.", "voice": voice.id}
            own = transform_prompt(prompt)["speed"]
            assert transform_prompt(prompt | {"speed": 1.5})["speed"] == pytest.approx(1.5 * own)


async def _speak(engine: AsyncOmniEngine, request_id: str, voice: str | None) -> bytes:
    heard = Heard()
    prompt = {"text": "Could you pass the tomatoes?"} | ({"voice": voice} if voice else {})
    async for output in engine.generate(request_id, prompt):
        heard.take(output)
    assert heard.is_finished
    return bytes(heard.audio)


@pytest.mark.model
@pytest.mark.process
def test_a_fetched_voice_speaks_and_a_file_that_is_no_voice_harms_no_one(home: Path) -> None:
    shutil.copy(bundled_voice(), home / FILES["emma"])
    (home / FILES["kore"]).write_bytes(b"<html>not found</html>")

    async def scenario() -> None:
        async with running(load_pipeline("hibari")) as engine:
            assert engine.find_voice("Emma").language == "en-GB"
            own, british = [await _speak(engine, str(voice), voice) for voice in (None, "emma")]
            assert len(british) > 24_000
            assert british != own, "tomatoes are read as in America"
            with pytest.raises(InvalidRequestError, match=r"the voices are: heart, .*, emma$"):
                engine.find_voice("kore")
            with pytest.raises(InvalidRequestError, match=r"the voices are: heart, .*, emma$"):
                await _speak(engine, "bad", "kore")
            assert await _speak(engine, "after", None)

    run(scenario)


def test_instructions_change_pace_height_and_melody() -> None:
    own = transform_prompt({"text": "Hello."})
    prompt = {"text": "Hello.", "instructions": "slow, very deep and slightly lively"}
    told = transform_prompt(prompt)
    assert told["speed"] == pytest.approx(0.78 * own["speed"])
    assert told["shape"]["pitch_ratio"] == pytest.approx(2 ** (-4 / 12))
    assert told["shape"]["pitch_range"] == pytest.approx(1.2)
    assert told["warnings"] == []
    assert VoiceShape(**told["shape"]).gain_db == own["shape"]["gain_db"]


def test_unknown_words_in_instructions_are_told() -> None:
    told = transform_prompt({"text": "Hello.", "instructions": "like a pirate"})
    assert told["warnings"] == ["instructions: ignored pirate"]


@pytest.mark.parametrize("speed", [0.25, 4.0])
@pytest.mark.parametrize(
    "instructions", ["very fast, very high, very lively", "very slow and deep"]
)
def test_instructions_keep_every_voice_within_its_limits(speed: float, instructions: str) -> None:
    for voice in list_voices():
        prompt = {"text": "Hi.", "voice": voice.id, "speed": speed, "instructions": instructions}
        told = transform_prompt(prompt)
        assert 0.25 <= told["speed"] <= 4.0
        VoiceShape(**told["shape"])


def test_instructions_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        transform_prompt({"text": "Hello.", "instructions": 3})
    assert caught.value.param == "instructions"
