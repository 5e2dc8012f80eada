"""What a transcription request comes to: the engine's prompt, and how the text is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from engine.errors import InvalidRequestError
from server.catalog import ModelCatalog
from server.schemas.transcriptions import ServerVad, TranscriptionForm, TranslationForm

TextFormat: TypeAlias = Literal["json", "text", "srt", "verbose_json", "vtt"]
Task: TypeAlias = Literal["transcribe", "translate"]

# OpenAI's models of this kind count tokens, and the others seconds.
_COUNTING_TOKENS = "gpt-"
# What OpenAI's models count for audio, and about what a tokeniser makes of English.
_AUDIO_TOKENS_PER_S = 10
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class TranscriptionPlan:
    """``prompt`` is the engine's."""

    prompt: dict[str, Any]
    task: Task
    fmt: TextFormat
    stream: bool
    has_words: bool
    has_segments: bool
    has_logprobs: bool
    counts_tokens: bool

    def usage(self, duration_s: float, num_output_tokens: int) -> dict[str, Any]:
        """OpenAI's usage: of tokens if the model is one of those, or text is streamed."""
        if not (self.counts_tokens or self.stream):
            return {"type": "duration", "seconds": -(-round(duration_s * 1000) // 1000)}
        num_text = -(-len(self.prompt.get("context") or "") // _CHARS_PER_TOKEN)
        num_audio = -(-round(duration_s * 1000) * _AUDIO_TOKENS_PER_S // 1000)
        return {
            "type": "tokens",
            "input_tokens": num_text + num_audio,
            "input_token_details": {"text_tokens": num_text, "audio_tokens": num_audio},
            "output_tokens": num_output_tokens,
            "total_tokens": num_text + num_audio + num_output_tokens,
        }


def plan_transcription(form: TranscriptionForm, catalog: ModelCatalog) -> TranscriptionPlan:
    """Raises ``InvalidRequestError`` or ``NotFoundError`` that names the field."""
    _check_model(form, catalog)
    _check_speakers(form)
    _check_combination(form)
    is_verbose = form.response_format == "verbose_json"
    has_words = "word" in form.timestamp_granularities
    has_logprobs = "logprobs" in form.include
    prompt = _prompt(form, "transcribe") | {
        "language": form.language,
        "languages": list(form.languages) or None,
        "keywords": list(form.keywords) or None,
        "word_times": has_words or has_logprobs,
        "detection": _detection(form.chunking_strategy),
    }
    return TranscriptionPlan(
        prompt=prompt,
        task="transcribe",
        fmt=form.response_format,
        stream=form.stream,
        has_words=has_words,
        has_segments="segment" in form.timestamp_granularities or (is_verbose and not has_words),
        has_logprobs=has_logprobs,
        counts_tokens=(form.model or "").startswith(_COUNTING_TOKENS),
    )


def plan_translation(form: TranslationForm, catalog: ModelCatalog) -> TranscriptionPlan:
    """Raises ``InvalidRequestError`` or ``NotFoundError`` that names the field."""
    _check_model(form, catalog)
    return TranscriptionPlan(
        prompt=_prompt(form, "translate"),
        task="translate",
        fmt=form.response_format,
        stream=False,
        has_words=False,
        has_segments=form.response_format == "verbose_json",
        has_logprobs=False,
        counts_tokens=(form.model or "").startswith(_COUNTING_TOKENS),
    )


def _prompt(form: TranslationForm, task: Task) -> dict[str, Any]:
    return {"task": task, "context": form.prompt, "temperature": form.temperature}


def _detection(strategy: Literal["auto"] | ServerVad | None) -> dict[str, Any] | None:
    """The pauses that part the audio; ``auto`` leaves that to us, as saying nothing does."""
    if not isinstance(strategy, ServerVad):
        return None
    return strategy.model_dump(exclude={"type"})


def _check_model(form: TranslationForm, catalog: ModelCatalog) -> None:
    if form.model is not None:
        catalog.check(form.model)


def _check_speakers(form: TranscriptionForm) -> None:
    for name in ("known_speaker_names", "known_speaker_references"):
        if getattr(form, name):
            raise InvalidRequestError(
                f"{name} cannot be used: this server does not tell speakers apart", param=name
            )


def _check_combination(form: TranscriptionForm) -> None:
    """OpenAI's rules; besides, a stream may tell its segments."""
    fmt, is_json = form.response_format, form.response_format == "json"
    if form.stream and fmt not in ("json", "text"):
        raise InvalidRequestError(
            f"response_format must be json or text with stream, got {fmt}", param="response_format"
        )
    if form.include and not is_json:
        raise InvalidRequestError("include needs response_format json", param="include")
    times = form.timestamp_granularities
    if times and fmt != "verbose_json" and not (form.stream and "word" not in times):
        raise InvalidRequestError(
            "timestamp_granularities needs response_format verbose_json (in a stream, segment "
            "works with json)",
            param="timestamp_granularities",
        )
