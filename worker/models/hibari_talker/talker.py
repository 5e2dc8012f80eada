"""Stage 0 of hibari-talker: sentences to prompts for the language model, its tokens to pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import Payload, SamplingParams, StageInteraction, StageRequest, StageUpdate
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.text.clean import unpack_clean
from worker.models.hibari.text.phonemes import Phonemizer
from worker.models.hibari.text_source import Speaker, SpokenChunk, TextSource
from worker.models.hibari.units import make_silent_unit, place_in_text
from worker.models.hibari_talker.adapter import NULL_ROLE, guidance_of
from worker.models.hibari_talker.pieces import piece_end
from worker.models.hibari_talker.tokens import (
    FIRST_PROSODY,
    FIRST_STYLE,
    NULL_STYLE,
    Style,
    build_prompt,
    is_prosody,
)
from worker.seeds import nth_seed
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Passage, Row
from worker.vllm.sampling import TokenSampling, read_sampling, refuse_fixed

PLAUSIBLE_NATS = 4.0
"""Without it fast speech at a guidance of 5 has pauses that neither row would make."""

_FIXED = frozenset(
    {"max_tokens", "min_tokens", "stop", "stop_token_ids", "ignore_eos", "allowed_token_ids"}
)
_PROSODY_TOKENS = tuple(range(FIRST_PROSODY, FIRST_STYLE))


@dataclass(slots=True)
class StyledSpeaker(Speaker):
    """How text is spoken, style included."""

    style: Style
    guidance_scale: float


class TalkerAdapter:
    """Light: the phonemizers are all that it loads."""

    def __init__(self) -> None:
        self._phonemizers = {british: Phonemizer(british) for british in (False, True)}

    def warm_up(self) -> None:
        """Load what American English needs."""
        self._phonemizers[False].warm_up()

    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> TalkerPassages:
        unknown = companions.keys() - {NULL_ROLE}
        if unknown:
            raise StageFailedError(f"the talker has no companion of role {min(unknown)!r}")
        return TalkerPassages(request, self._phonemizers)

    def model_files(self) -> Sequence[Path]:
        return [bundled_voice()]


class TalkerPassages:
    """The sentences of one request as passages, one phoneme chunk each."""

    def __init__(self, request: StageRequest, phonemizers: dict[bool, Phonemizer]) -> None:
        self._seed = request.seed
        self._cut_position = request.cut_position
        self._sampling = request.sampling
        _sampling(request.sampling, 1)  # refuses what it must before anything is said
        self._is_resumable = request.resumable
        self._number = request.first_passage
        self._source = TextSource(phonemizers, self._speaker(request.prompt))
        if request.first_unit > 0:
            return
        if request.resumable:
            self._source.feed(request.prompt["text"], 0)
        else:
            self._source.put_clean(unpack_clean(request.prompt))

    def update(self, update: StageUpdate) -> None:
        payload = update.payload
        self._source.feed(payload.get("text", ""), payload.get("text_offset", 0))
        if update.final:
            self._source.flush()

    def interact(self, interaction: StageInteraction) -> None:
        """Flush: speak what is buffered. Update: another speaker for the text after it."""
        if interaction.kind == "flush":
            self._source.flush()
        else:
            self._source.update(self._speaker(interaction.arguments))

    @property
    def is_empty(self) -> bool:
        return self._source.is_empty

    def take(self) -> Passage | None:
        chunk = self._source.take()
        if chunk is None:
            if self._number == 0 and not self._is_resumable:
                raise InvalidRequestError("input holds nothing that can be spoken", param="input")
            return None
        number = self._number
        self._number += 1
        speaker = chunk.speaker
        assert isinstance(speaker, StyledSpeaker)
        ids = chunk.phonemes.ids.tolist()
        rows = [Row(None, build_prompt(ids, speaker.style.tokens))]
        if speaker.guidance_scale != 1.0:
            rows.append(Row(NULL_ROLE, build_prompt(ids, NULL_STYLE)))
        return Passage(
            number=number,
            rows=tuple(rows),
            sampling=_sampling(self._sampling, len(ids)),
            sink=PieceSink(_unit(chunk, nth_seed(self._seed, number)), self._cut_position),
            guidance_scale=speaker.guidance_scale,
            plausible_nats=PLAUSIBLE_NATS,
        )

    def closing(self) -> Payload | None:
        """Warnings of the text behind the last sentence that has a sound."""
        warnings = self._source.take_warnings()
        return {"unit": make_silent_unit(warnings)} if warnings else None

    def _speaker(self, prompt: dict[str, Any]) -> StyledSpeaker:
        return StyledSpeaker(
            prompt["speed"],
            prompt["british"],
            prompt["model_path"],
            prompt["shape"],
            Style(*prompt["style"]),
            guidance_of(prompt, self._sampling),
        )


class PieceSink:
    """Hands a sentence's tokens on in pieces (see ``pieces.py``).

    ``unit`` goes with the first; speech begins at ``cut_position`` of the request's tokens.
    """

    def __init__(self, unit: Payload, cut_position: int) -> None:
        self._unit = unit
        self._cut_position = cut_position
        self._tokens: list[int] = []
        self._num_sent = 0

    def feed(self, burst: Burst) -> Payload | None:
        num_phonemes = self._unit["ids"].size
        if not self._tokens:
            self._unit["begins"] = burst.position == self._cut_position
        self._tokens += burst.token_ids
        self._check(burst, num_phonemes)
        start, stop = self._num_sent, piece_end(len(self._tokens), num_phonemes)
        if start == stop:
            return None
        self._num_sent = stop
        piece: Payload = {"tokens": np.array(self._tokens[start:stop], np.int64)}
        return piece if start else piece | {"unit": self._unit}

    def _check(self, burst: Burst, num_phonemes: int) -> None:
        for token in burst.token_ids:
            if not is_prosody(token):
                raise StageFailedError(f"the talker wrote {token}, which is no prosody token")
        if len(self._tokens) > num_phonemes:
            raise StageFailedError(
                f"the talker wrote {len(self._tokens)} tokens for {num_phonemes} phonemes"
            )
        if burst.finish_reason is not None and len(self._tokens) < num_phonemes:
            raise StageFailedError(
                f"the talker ended after {len(self._tokens)} of {num_phonemes} tokens"
            )


def load(_context: StageContext) -> TalkerAdapter:
    adapter = TalkerAdapter()
    adapter.warm_up()
    return adapter


def _sampling(asked: SamplingParams, num_phonemes: int) -> TokenSampling:
    """One token per phoneme, of those that say something.

    What would change that is refused by name: such a request could only fail in the middle.
    """
    refuse_fixed(asked, _FIXED, "this model says one token per phoneme")
    defaults = TokenSampling(
        max_tokens=num_phonemes,
        min_tokens=num_phonemes,
        ignore_eos=True,
        temperature=0.7,
        top_p=0.95,
        allowed_token_ids=_PROSODY_TOKENS,
    )
    return read_sampling(asked, defaults)


def _unit(chunk: SpokenChunk, seed: int) -> Payload:
    """What code2wav is told of a sentence besides its tokens (see ``code2wav.py``)."""
    speaker, sentence = chunk.speaker, chunk.sentence
    return {
        "ids": chunk.phonemes.ids,
        "speed": speaker.speed,
        "words": place_in_text(chunk.phonemes.words, chunk.locate),
        "seed": seed,
        "begins": False,
        "sentence": (sentence.start, sentence.end, chunk.ends_sentence),
        "shape": speaker.shape,
        "model_path": speaker.model_path,
        "warnings": chunk.warnings,
    }
