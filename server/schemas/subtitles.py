"""The request of ``/v1/audio/speech/subtitles``."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from server.audio.formats import AudioFormat
from server.schemas.speech import SpeechRequest, SpokenText
from server.subtitles import SubtitleFormat


class SubtitlesRequest(SpokenText):
    """What is said, in which voice, and the format of its subtitles."""

    must_be: ClassVar[dict[str, str]] = SpokenText.must_be | {
        "response_format": "one of " + ", ".join(SubtitleFormat),
    }

    response_format: Annotated[
        SubtitleFormat | None,
        Field(description="vtt (WebVTT) if not given, or srt (SubRip)."),
    ] = None

    def as_speech(self) -> SpeechRequest:
        """The request for the speech that the subtitles are of."""
        spoken = self.model_dump(exclude={"response_format"})
        return SpeechRequest(
            **spoken, response_format=AudioFormat.PCM, timestamp_granularities=["word"]
        )
