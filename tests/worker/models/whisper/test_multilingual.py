"""What multilingual weights are asked for: languages are chosen, translations are not refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ConfigError
from tests.spoken import SENTENCES, spoken
from tests.worker.models.whisper.tiny_multilingual import write_model
from worker.models.whisper.languages import LANGUAGES
from worker.models.whisper.recogniser import Recogniser, Recognition, WhisperOptions

pytestmark = pytest.mark.asr


@pytest.fixture(scope="module")
def recogniser(tmp_path_factory: pytest.TempPathFactory) -> Recogniser:
    folder: Path = tmp_path_factory.mktemp("model")
    return Recogniser(WhisperOptions(weights=write_model(folder), beam_size=1), num_workers=1)


def language_of(recogniser: Recogniser, wanted: Recognition) -> str:
    recogniser.check(wanted)
    return recogniser.recognise(spoken(SENTENCES[1]), wanted, 0.0).language


def test_a_language_is_found_out_or_as_it_was_said(recogniser: Recogniser) -> None:
    assert language_of(recogniser, Recognition(temperature=1.0)) in LANGUAGES
    assert language_of(recogniser, Recognition(language="de", temperature=1.0)) == "de"


def test_one_of_several_languages_is_chosen(recogniser: Recogniser) -> None:
    chosen = {
        language_of(recogniser, Recognition(languages=languages, temperature=1.0))
        for languages in (("fr", "it"), ("it", "fr"))
    }

    assert len(chosen) == 1
    assert chosen <= {"fr", "it"}
    assert language_of(recogniser, Recognition(languages=("uk",), temperature=1.0)) == "uk"


def test_a_translation_is_done(recogniser: Recogniser) -> None:
    wanted = Recognition(task="translate", language="fr", temperature=1.0)

    assert language_of(recogniser, wanted) == "fr"


def test_all_of_whispers_languages_may_be_promised(recogniser: Recogniser) -> None:
    recogniser.check_promised(list(LANGUAGES))
    with pytest.raises(ConfigError, match="klingon"):
        recogniser.check_promised(["en", "klingon"])
