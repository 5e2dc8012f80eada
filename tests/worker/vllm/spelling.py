"""A model family for tests: sentences become prompts, and each token a short tone.

A text is sentences, each ending in a full stop. ``{"text": ..., "max_tokens": n, "lora": ...}``. A
payload holds the tokens, and a note of 240 samples for each. A sink fails at a sentence that holds
``sink fails at N``, at token N.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import (
    Payload,
    Prompt,
    SamplingParams,
    StageInteraction,
    StageRequest,
    StageUpdate,
)
from engine.pipeline import PromptExpansion
from tests.worker.vllm.tiny_model import prompt_of
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Passage, Row
from worker.vllm.sampling import TokenSampling, read_guidance, read_sampling

NUM_TOKENS = 24
SAMPLES_PER_TOKEN = 240


def prompt_tokens(sentence: str) -> list[int]:
    """10 to 40 token ids, or n of them if the sentence says ``n words``."""
    number = zlib.crc32(sentence.encode())
    asked = re.search(r"(\d+) words", sentence)
    length = int(asked[1]) if asked else 10 + number % 31
    return prompt_of(number % 10_000, length)


def sentences_of(text: str) -> list[str]:
    return [part.strip() for part in text.split(".") if part.strip()]


def expand_prompt(prompt: Prompt, sampling: SamplingParams) -> list[PromptExpansion]:
    """A companion with its own words, for a request that asks for guidance."""
    if sampling.guidance_scale in (None, 1.0):
        return []
    return [PromptExpansion(prompt | {"null": True}, "free", "/free")]


class Spelling:
    """A sink that says what it got."""

    def __init__(self, sentence: str) -> None:
        self._fails_at = int(sentence.split("fails at")[1]) if "fails at" in sentence else None
        self._num_tokens = 0

    def feed(self, burst: Burst) -> Payload | None:
        self._num_tokens += len(burst.token_ids)
        if self._fails_at is not None and self._num_tokens > self._fails_at:
            raise StageFailedError(f"token {self._fails_at} is no speech")
        num_samples = SAMPLES_PER_TOKEN * len(burst.token_ids)
        note = {"hz": 200.0 + burst.token_ids[0], "num_samples": num_samples}
        payload: dict[str, Any] = {"tokens": list(burst.token_ids), "note": note}
        return payload | {"text": burst.text, "reason": burst.finish_reason}


class Speller:
    """The sentences of one request."""

    def __init__(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> None:
        prompt = request.prompt
        self._sampling = read_sampling(
            request.sampling,
            TokenSampling(
                max_tokens=prompt.get("max_tokens", NUM_TOKENS), temperature=0.0, ignore_eos=True
            ),
        )
        self._scale = read_guidance(request.sampling, 1.0)
        self._lora = prompt.get("lora")
        self._roles = [None, *companions]
        self._number = request.first_passage
        self._rest = ""
        self._sentences: deque[str] = deque()
        if request.first_unit == 0:
            self._feed(prompt["text"], is_final=not request.resumable)
            if not request.resumable and not self._sentences:
                raise InvalidRequestError("input holds no sentence", param="input")

    def update(self, update: StageUpdate) -> None:
        self._feed(update.payload.get("text", ""), is_final=update.final)

    def interact(self, interaction: StageInteraction) -> None:
        self._feed("", is_final=True)

    def take(self) -> Passage | None:
        if not self._sentences:
            return None
        sentence = self._sentences.popleft()
        number, self._number = self._number, self._number + 1
        rows = [Row(role, prompt_tokens(f"{role or ''}{sentence}")) for role in self._roles]
        return Passage(
            number=number,
            rows=tuple(rows),
            sampling=self._sampling,
            sink=Spelling(sentence),
            guidance_scale=self._scale,
            lora=self._lora,
        )

    def closing(self) -> None:
        """Nothing follows the last passage."""

    @property
    def is_empty(self) -> bool:
        return not self._sentences and not self._rest

    def _feed(self, text: str, *, is_final: bool) -> None:
        *sentences, self._rest = (self._rest + text).split(".")
        if is_final:
            sentences, self._rest = [*sentences, self._rest], ""
        self._sentences.extend(part.strip() for part in sentences if part.strip())


class SpellingAdapter:
    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> Speller:
        return Speller(request, companions)

    def model_files(self) -> Sequence[Path]:
        return [Path(__file__)]


def load(_context: StageContext) -> SpellingAdapter:
    return SpellingAdapter()
