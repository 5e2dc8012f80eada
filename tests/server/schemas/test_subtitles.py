"""The subtitles schema."""

from __future__ import annotations

from server.schemas.speech import SpeechRequest
from server.schemas.subtitles import SubtitlesRequest


def test_every_field_says_what_it_must_be() -> None:
    assert set(SubtitlesRequest.must_be) == set(SubtitlesRequest.model_fields)


def test_the_speech_is_what_the_subtitles_are_of() -> None:
    request = SubtitlesRequest.model_validate(
        {"input": "a", "voice": {"id": "b"}, "speed": 2, "seed": 3, "language": "en"}
    )

    speech = request.as_speech()

    shared = set(SubtitlesRequest.model_fields) & set(SpeechRequest.model_fields)
    for name in shared - {"response_format"}:
        assert getattr(speech, name) == getattr(request, name)
