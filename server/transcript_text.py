"""The shapes of a transcript: JSON, plain text, subtitles, events."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from server.subtitles import Cue, SubtitleFormat, write_subtitles
from server.transcriber import Passage
from server.transcription_plan import TranscriptionPlan

CONTENT_TYPES = {
    "json": "application/json",
    "verbose_json": "application/json",
    "text": "text/plain; charset=utf-8",
    "srt": "text/plain; charset=utf-8",
    "vtt": "text/vtt; charset=utf-8",
}
# The probability of a word that was certainly not said, as it is certainly written.
_MIN_PROBABILITY = 1e-10

Segment = dict[str, Any]


@dataclass(slots=True)
class Transcript:
    """What has been recognised so far. ``language`` is that of the first passage with text."""

    segments: list[Segment] = field(default_factory=list)
    language: str = "en"
    language_name: str = "english"

    @property
    def text(self) -> str:
        return "".join(segment["text"] for segment in self.segments).strip()

    @property
    def num_tokens(self) -> int:
        return sum(len(segment["tokens"]) for segment in self.segments)

    def add(self, passage: Passage) -> list[tuple[Segment, str]]:
        """The passage's segments, and how each continues the text."""
        added = []
        for segment in passage.segments:
            if not self.segments:
                self.language, self.language_name = passage.language, passage.language_name
            delta = segment["text"] if self.segments else segment["text"].lstrip()
            self.segments.append(segment)
            added.append((segment, delta))
        return added


def render(plan: TranscriptionPlan, transcript: Transcript, duration_s: float) -> str | Segment:
    """The body of a whole answer: a text, or what becomes JSON."""
    match plan.fmt:
        case "text":
            return f"{transcript.text}\n"
        case "srt" | "vtt":
            return subtitles(transcript.segments, SubtitleFormat(plan.fmt))
        case "verbose_json":
            return _verbose(plan, transcript, duration_s)
        case "json":
            return _simple(plan, transcript, duration_s)


def subtitles(segments: Iterable[Segment], fmt: SubtitleFormat) -> str:
    """A cue for each segment, as Whisper's own subtitles have."""
    cues = (
        Cue(round(s["start"] * 1000), round(s["end"] * 1000), (" ".join(s["text"].split()),))
        for s in segments
    )
    return write_subtitles(cues, fmt)


def delta_event(plan: TranscriptionPlan, segment: Segment, delta: str) -> dict[str, Any]:
    """``transcript.text.delta``."""
    event: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta}
    return event | {"logprobs": logprobs([segment])} if plan.has_logprobs else event


def segment_event(segment: Segment, number: int) -> dict[str, Any]:
    """``transcript.text.segment``; who speaks is not known."""
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{number}",
        "start": segment["start"],
        "end": segment["end"],
        "speaker": "",
        "text": segment["text"].strip(),
    }


def done_event(
    plan: TranscriptionPlan, transcript: Transcript, duration_s: float
) -> dict[str, Any]:
    """``transcript.text.done``."""
    return {"type": "transcript.text.done", **_simple(plan, transcript, duration_s)}


def logprobs(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    """An entry a word, its space included: Whisper's probabilities come by words."""
    return [
        {
            "token": word,
            "bytes": list(word.encode()),
            "logprob": math.log(max(probability, _MIN_PROBABILITY)),
        }
        for segment in segments
        for word, _start, _end, probability in segment["words"]
    ]


def _simple(plan: TranscriptionPlan, transcript: Transcript, duration_s: float) -> dict[str, Any]:
    answer: dict[str, Any] = {"text": transcript.text}
    if plan.task == "translate":
        return answer
    if plan.has_logprobs:
        answer["logprobs"] = logprobs(transcript.segments)
    if transcript.segments:
        answer["languages"] = [{"code": transcript.language}]
    return answer | {"usage": plan.usage(duration_s, transcript.num_tokens)}


def _verbose(plan: TranscriptionPlan, transcript: Transcript, duration_s: float) -> dict[str, Any]:
    is_translation = plan.task == "translate"
    answer = {
        "task": plan.task,
        "language": "english" if is_translation else transcript.language_name,
        "duration": round(duration_s, 3),
        "text": transcript.text,
    }
    if plan.has_segments:
        segments = enumerate(transcript.segments)
        answer["segments"] = [_describe(number, segment) for number, segment in segments]
    if plan.has_words:
        answer["words"] = _words(transcript.segments)
    if not is_translation:
        answer["usage"] = plan.usage(duration_s, transcript.num_tokens)
    return answer


def _describe(number: int, segment: Segment) -> dict[str, Any]:
    """OpenAI's segment. ``seek`` counts hundredths of a second, as Whisper does."""
    kept = (
        "start",
        "end",
        "text",
        "tokens",
        "temperature",
        "avg_logprob",
        "compression_ratio",
        "no_speech_prob",
    )
    return {"id": number, "seek": segment["seek"]} | {key: segment[key] for key in kept}


def _words(segments: Iterable[Segment]) -> list[dict[str, Any]]:
    return [
        {"word": word.strip(), "start": start, "end": end}
        for segment in segments
        for word, start, end, _probability in segment["words"]
    ]
