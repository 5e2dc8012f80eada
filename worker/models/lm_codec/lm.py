"""The language-model stage: texts to prompts, and what the model says to windows of codes."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from engine.errors import ConfigError, InvalidRequestError, StageFailedError
from engine.messages import Payload, SamplingParams, StageInteraction, StageRequest, StageUpdate
from engine.pipeline import load_object
from worker.models.lm_codec.adapter import NULL_ROLE, check_guidance, find_voice, plain_text
from worker.models.lm_codec.codes import CodeReader, FrameLayout, InvalidCodesError
from worker.models.lm_codec.description import (
    Description,
    VoiceSpec,
    description_path,
    load_description,
)
from worker.models.lm_codec.prompts import PromptBuilder
from worker.models.lm_codec.texts import PieceSource, TextPiece, spoken_length
from worker.models.lm_codec.units import make_unit
from worker.models.lm_codec.windows import WindowCutter
from worker.seeds import nth_seed
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Passage, Row
from worker.vllm.sampling import TokenSampling, read_sampling, refuse_fixed, refuse_penalties

# A page: splitting it takes about a millisecond.
_SLICE_CHARS = 4096
_FIXED = frozenset({"stop", "stop_token_ids", "ignore_eos", "allowed_token_ids"})


@dataclass(frozen=True, slots=True)
class _Speaker:
    voice: VoiceSpec
    fields: Mapping[str, str]


class CodecSink:
    """Turns the tokens of one passage into windows. A stream out of bounds is an error."""

    def __init__(
        self, description: Description, layout: FrameLayout, piece: TextPiece, seed: int
    ) -> None:
        self._description = description
        self._piece = piece
        self._seed = seed
        self._reader = CodeReader(layout)
        self._cutter = WindowCutter(description)

    def feed(self, burst: Burst) -> Payload | None:
        """The windows that these tokens complete. Raises ``StageFailedError``."""
        tokens = burst.token_ids
        if burst.finish_reason == "length":
            raise StageFailedError(
                f"the model did not stop: {len(self._piece.text)} characters may take "
                f"no more than its {self._reader.num_frames} frames"
            )
        if burst.finish_reason == "stop":
            tokens = tokens[:-1]  # without the stop token
        windows = self._cutter.feed(self._reader.feed(tokens))
        if burst.finish_reason == "stop":
            self._reader.finish()
            self._check_length()
            windows += self._cutter.finish()
        if not windows:
            return None
        span = (self._piece.span.start, self._piece.span.end)
        return make_unit(windows, seed=self._seed, span=span)

    def _check_length(self) -> None:
        num_frames, num_chars = self._reader.num_frames, len(self._piece.text)
        shortest_ms = self._description.lengths.min_ms_per_char * num_chars
        if num_frames == 0 or num_frames * self._description.frame_ms < shortest_ms:
            raise InvalidCodesError(
                f"the model stopped early: {num_frames} frames for {num_chars} characters"
            )


@dataclass(frozen=True, slots=True)
class _Input:
    """Text at ``offset`` of the request's, and whether the speaker's turn, or the text, ends."""

    text: str
    offset: int
    speaker: _Speaker
    flushes: bool


class CodecPassages:
    """The passages of one request: a ``PassageSource``. Text is read in ``take``, and lazily."""

    def __init__(self, model: CodecLm, request: StageRequest) -> None:
        self._model = model
        self._request = request
        self._speaker = model.speaker(request.prompt)
        self._inputs: deque[_Input] = deque()
        self._source = PieceSource(model.description.lengths.max_chars)
        self._pieces: deque[tuple[TextPiece, _Speaker]] = deque()
        self._number = request.first_passage
        if request.first_unit == 0:
            self._put(request.prompt["text"], 0, flushes=not request.resumable)

    @property
    def is_empty(self) -> bool:
        return not self._inputs and not self._pieces and self._source.is_empty

    def update(self, update: StageUpdate) -> None:
        payload = update.payload
        text, offset = plain_text(payload.get("text", "")), payload.get("text_offset", 0)
        self._put(text, offset, flushes=update.final)

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: say what is buffered. Update: another speaker for the text after it."""
        self._put("", 0, flushes=True)
        if interaction.kind == "update":
            self._speaker = self._model.speaker(interaction.arguments)

    def take(self) -> Passage | None:
        while not self._pieces and self._inputs:
            self._read(self._inputs.popleft())
        if not self._pieces:
            return None
        piece, speaker = self._pieces.popleft()
        number = self._number
        self._number += 1
        return self._model.passage(self._request, piece, speaker, number)

    def closing(self) -> None:
        """Nothing follows the last passage."""

    def _put(self, text: str, offset: int, *, flushes: bool) -> None:
        """A long text is read a slice at a time: its first passage must not wait for its last."""
        starts = range(0, max(len(text), 1), _SLICE_CHARS)
        for start in starts:
            part = text[start : start + _SLICE_CHARS]
            ends = flushes and start == starts[-1]
            self._inputs.append(_Input(part, offset + start, self._speaker, ends))

    def _read(self, item: _Input) -> None:
        source = self._source
        if item.text:
            source.feed(item.text, item.offset)
        if item.flushes:
            source.flush()
        elif self._request.resumable:
            source.close()
        while (piece := source.take()) is not None:
            self._pieces.append((piece, item.speaker))


class CodecLm:
    """An ``LlmAdapter`` for the model of a description."""

    def __init__(self, description: Description, builder: PromptBuilder, path: Path) -> None:
        self.description = description
        self._builder = builder
        self._path = path
        self._make_text: Callable[[str], str] = str
        if description.text_func is not None:
            self._make_text = load_object(description.text_func, "text_func")

    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> CodecPassages:
        unknown = sorted(companions.keys() - {NULL_ROLE})
        if unknown:
            raise InvalidRequestError(f"unknown companion role {unknown[0]!r}")
        self._sampling(request.sampling, 1)  # refuses what it must now
        return CodecPassages(self, request)

    def model_files(self) -> Sequence[Path]:
        return [self._path]

    def speaker(self, prompt: Mapping[str, Any]) -> _Speaker:
        return _Speaker(find_voice(self.description, prompt.get("voice")), prompt["fields"])

    def passage(
        self, request: StageRequest, piece: TextPiece, speaker: _Speaker, number: int
    ) -> Passage:
        """One piece of text as prompts. Raises ``InvalidRequestError`` for control tokens in it.

        A guided one has its null row whether the request has a companion or not: it has none if its
        text comes in segments, or if it ends with this stage.
        """
        description, fields = self.description, self._fields(piece.text, speaker)
        rows = [Row(None, self._builder.build(description.prompt, speaker.voice, fields))]
        scale = check_guidance(description, request.sampling.guidance_scale)
        if scale != 1.0 and description.guidance is not None:
            null_prompt = description.guidance.null_prompt
            rows.append(Row(NULL_ROLE, self._builder.build(null_prompt, speaker.voice, fields)))
        seed = nth_seed(request.seed, number)
        return Passage(
            number=number,
            rows=tuple(rows),
            sampling=self._sampling(request.sampling, spoken_length(piece.text)),
            sink=CodecSink(description, self._builder.layout, piece, seed),
            guidance_scale=scale,
        )

    def _fields(self, text: str, speaker: _Speaker) -> dict[str, str]:
        fields = dict(speaker.fields) | {"text": self._make_text(text)}
        if speaker.voice.reference is not None:
            fields["reference_text"] = self._make_text(speaker.voice.reference.text)
        return fields

    def _sampling(self, asked: SamplingParams, num_letters: int) -> TokenSampling:
        """The request's parameters over the model's; the length is bounded by ``spoken_length``.

        Guided rows cannot have penalties: the model's are left out, a request's refused. So are
        parameters that would change what ends speech, or what may be said.
        """
        refuse_fixed(asked, _FIXED, "the model's description says what speech is and what ends it")
        description, lengths = self.description, self.description.lengths
        longest_ms = lengths.slack_ms + lengths.max_ms_per_char * num_letters
        num_codes = math.ceil(longest_ms / description.frame_ms) * description.num_slots
        limits = TokenSampling(
            max_tokens=math.ceil(num_codes * description.tokens.overhead) + 1,
            stop_token_ids=self._builder.stop_token_ids,
        )
        defaults = read_sampling(description.sampling, limits)
        if check_guidance(description, asked.guidance_scale) == 1.0:
            return read_sampling(asked, defaults)
        neutral = replace(
            defaults, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0
        )
        sampling = read_sampling(asked, neutral)
        refuse_penalties(sampling)
        return sampling


class LmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``description``: a name or a path."""

    description: str


def load(context: StageContext) -> CodecLm:
    """With the tokenizer of the stage's checkpoint. Raises ``ConfigError``."""
    name = context.read_options(LmOptions).description
    llm = context.stage.llm
    if llm is None:
        raise ConfigError(f"stage {context.stage.name!r} must have stage_type: llm")
    description = load_description(name)
    builder = PromptBuilder.load(name, description, llm.tokenizer or llm.checkpoint)
    return CodecLm(description, builder, description_path(name))
