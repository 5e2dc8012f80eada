"""The stage behind the thinker: reads thoughts aloud with the text front end of a speech model.

It is that model's own first stage, told sentence by sentence what to say, as a client would tell it
that streams its text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from engine.errors import ConfigError
from engine.messages import Fingerprint, Prompt, StageInteraction, StageRequest, StageUpdate
from engine.pipeline import PromptTransform, load_object
from worker.models.thinker.adapter import SPEECH_KEYS
from worker.stage_model import StageContext, StageModel, StepOutput


class SpeechOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``options`` of the stage: the speech model's first stage and its prompt transform."""

    model: str = "worker.models.hibari.prosody:load"
    transform: str = "worker.models.hibari.adapter:transform_prompt"


class ThoughtReader:
    """A ``StageModel`` around a speech model's first stage."""

    def __init__(self, inner: StageModel, transform: PromptTransform) -> None:
        self._inner = inner
        self._transform = transform

    @property
    def num_requests(self) -> int:
        return self._inner.num_requests

    def add(self, request: StageRequest) -> None:
        self._inner.add(msgspec.structs.replace(request, prompt=self._prompt(request.prompt)))

    def update(self, update: StageUpdate) -> None:
        """A thought. What follows on something that is not read begins a sentence of its own."""
        unit = update.unit
        for text, offset, breaks in update.payload.get("thought", {}).get("pieces", ()):
            if breaks:
                flush = StageInteraction(update.request_id, unit, "flush")
                self._inner.interact(flush)
            payload = {"text": text, "text_offset": offset}
            self._inner.update(StageUpdate(update.request_id, unit, payload))
        if update.final:
            self._inner.update(StageUpdate(update.request_id, unit, {}, final=True))

    def interact(self, interaction: StageInteraction) -> None:
        self._inner.interact(interaction)

    def abort(self, request_id: str) -> None:
        self._inner.abort(request_id)

    def has_work(self, request_id: str) -> bool:
        return self._inner.has_work(request_id)

    def step(self, batch: Sequence[str]) -> StepOutput:
        return self._inner.step(batch)

    def fingerprint(self) -> Fingerprint:
        return self._inner.fingerprint()

    def _prompt(self, prompt: Prompt) -> Prompt:
        """How to speak; the text comes as thoughts."""
        spoken: dict[str, Any] = {key: prompt[key] for key in SPEECH_KEYS if key in prompt}
        return self._transform(spoken | {"text": "", "resumable": True}) | {"text": ""}


def load(context: StageContext) -> ThoughtReader:
    if context.stage_id == 0:
        raise ConfigError(f"stage {context.stage.name!r} must come behind a thinker")
    options = context.read_options(SpeechOptions)
    inner = load_object(options.model, "model")(context)
    return ThoughtReader(inner, load_object(options.transform, "transform"))
