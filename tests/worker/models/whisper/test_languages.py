"""Names and codes of languages."""

from __future__ import annotations

import pytest
from faster_whisper.tokenizer import _LANGUAGE_CODES

from worker.models.whisper.languages import LANGUAGES, find_language

pytestmark = pytest.mark.asr


def test_the_languages_are_whispers() -> None:
    assert set(LANGUAGES) == set(_LANGUAGE_CODES)
    assert len(set(LANGUAGES.values())) == len(LANGUAGES)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("en", "en"),
        ("EN", "en"),
        ("en-US", "en"),
        ("pt_BR", "pt"),
        ("English", "en"),
        ("haitian creole", "ht"),
        ("nb", "no"),
        ("yue", "yue"),
        ("xx", None),
        ("", None),
    ],
)
def test_codes_tags_and_names_are_understood(text: str, code: str | None) -> None:
    assert find_language(text) == code
