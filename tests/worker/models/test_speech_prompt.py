"""Keys and text of a client's prompt for speech."""

from __future__ import annotations

import pytest

from engine.errors import InvalidRequestError
from worker.models.speech_prompt import check_keys, text_of


def test_keys_of_clients_and_of_the_engine_pass() -> None:
    check_keys({"text": "Hi.", "voice": "a", "request_id": "r", "text_offset": 0})


def test_an_unknown_key_is_refused_with_those_that_clients_may_use() -> None:
    with pytest.raises(
        InvalidRequestError, match="'mood'; this model knows: instructions"
    ) as caught:
        check_keys({"text": "Hi.", "mood": "x"})
    assert caught.value.param == "mood"
    assert "request_id" not in caught.value.message


@pytest.mark.parametrize("prompt", [{}, {"text": None}, {"text": 7}])
def test_a_prompt_without_text_is_refused(prompt: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError, match="text must be a string") as caught:
        text_of(prompt)
    assert caught.value.param == "input"
