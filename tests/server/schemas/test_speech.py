"""The speech schema."""

from __future__ import annotations

from server.schemas.speech import SpeechRequest


def test_every_field_says_what_it_must_be() -> None:
    assert set(SpeechRequest.must_be) == set(SpeechRequest.model_fields)
