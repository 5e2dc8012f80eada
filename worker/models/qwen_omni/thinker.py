"""The thinker as a language-model stage: messages and sounds in, text and thoughts out.

It is the chat stage of ``worker.models.thinker`` for a model that hears, and for which another one
talks: each payload holds the text as other thinkers tell it, and, if a talker follows, the rows
that it reads (``worker.models.qwen_omni.thought``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import Payload, StageInteraction, StageRequest, StageUpdate
from worker.models.qwen_omni.sounds import read_sounds
from worker.models.qwen_omni.thought import KEY, Thought, pack_thought
from worker.models.thinker.fitting import Fitted
from worker.models.thinker.hermes_calls import OPEN
from worker.models.thinker.question import Question
from worker.models.thinker.vllm_adapter import ChatAdapter, ChatOptions, ThoughtSink
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Embedded, Passage, PassageSource, Row
from worker.vllm.states import Floats, States


class ThinkerOptions(ChatOptions, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``options`` of the stage: those of other chat models, and ``system``.

    It is the system message of a conversation that has none of its own.
    """

    system: str | None = None


@dataclass(frozen=True, slots=True)
class ThinkerFacts:
    """Of the checkpoint: the token that stands for sound, and those that end an answer."""

    audio_token: int
    stop_tokens: tuple[int, ...]


class OmniAdapter(ChatAdapter):
    """An ``LlmAdapter``. The stage must come behind one that hears."""

    def __init__(self, tokenizer: Any, options: ThinkerOptions, facts: ThinkerFacts) -> None:
        super().__init__(tokenizer, options, is_first=False)
        self._system = options.system
        self.facts = facts
        self._control_texts = [str(token) for token in tokenizer.all_special_tokens]

    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> PassageSource:
        for text in _texts(request.prompt["messages"]):
            self._check_text(text)
        question = self.read_question(request)
        stops = dict.fromkeys((*question.sampling.stop_token_ids, *self.facts.stop_tokens))
        sampling = replace(question.sampling, stop_token_ids=tuple(stops))
        return OmniSource(
            self,
            replace(question, sampling=sampling),
            request.first_passage,
            is_spoken=not request.is_final_stage,
        )

    def fit_sounds(self, question: Question, sounds: Sequence[Floats]) -> tuple[Row, Fitted]:
        """As ``fit``; in the row are as many placeholders for each sound as it has embeddings."""
        ids: list[int] = []
        positions: list[int] = []
        fitted = self.fit(question, [len(sound) for sound in sounds])
        told = [sounds[number] for number in fitted.sounds]
        left = list(told)
        for token in fitted.ids:
            num_tokens = 1
            if token == self.facts.audio_token and left:
                num_tokens = len(left.pop(0))
                positions += range(len(ids), len(ids) + num_tokens)
            ids += [token] * num_tokens
        if left:
            raise InvalidRequestError(
                "the model's chat template has no place for one of the sounds", param="messages"
            )
        if not told:
            return Row(None, ids), fitted
        embedded = Embedded(np.array(positions, np.int64), np.concatenate(told))
        return Row(None, ids, embedded), fitted

    def shown(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Parts stay parts; a developer's message is a system message, and there is always one."""
        shown = super().shown(messages)
        for read, message in zip(shown, messages, strict=True):
            if isinstance(message.get("content"), list):
                read["content"] = message["content"]
            if read.get("role") == "developer":
                read["role"] = "system"
        if self._system is not None and shown[0].get("role") != "system":
            shown.insert(0, {"role": "system", "content": self._system})
        return shown

    def _check_text(self, text: str) -> None:
        """A control token in a client's text would end its message, or stand for a sound."""
        found = next((control for control in self._control_texts if control in text), None)
        if found is not None:
            raise InvalidRequestError(
                f"messages must not hold the model's control tokens, such as {found}",
                param="messages",
            )


class OmniSource:
    """A ``PassageSource`` of one passage, which begins when all has been heard."""

    def __init__(
        self, adapter: OmniAdapter, question: Question, first_passage: int, *, is_spoken: bool
    ) -> None:
        """``is_spoken``: a talker reads the rows of the answer."""
        self._adapter = adapter
        self._is_spoken = is_spoken
        self._question = question
        self._sounds: list[Floats] = []
        self._has_heard_all = False
        self._is_taken = first_passage > 0

    def update(self, update: StageUpdate) -> None:
        self._sounds += read_sounds(update.payload)
        self._has_heard_all |= update.final

    def interact(self, interaction: StageInteraction) -> None:
        raise InvalidRequestError(f"an answer takes no {interaction.kind}", param="kind")

    def take(self) -> Passage | None:
        if self._is_taken or not self._has_heard_all:
            return None
        self._is_taken = True
        row, fitted = self._adapter.fit_sounds(self._question, self._sounds)
        return Passage(
            number=0,
            rows=(row,),
            sampling=self._question.sampling,
            sink=OmniSink(self._adapter, row, fitted.begun, fitted.num_left_out),
            wants_text=True,
            wants_states=self._is_spoken,
        )

    def closing(self) -> None:
        """Nothing follows the last passage."""

    @property
    def is_empty(self) -> bool:
        return self._is_taken


class OmniSink(ThoughtSink):
    """A ``TokenSink``: tokens and states to thoughts, with rows of each position once.

    The talker is told nothing of a tool call, nor of what comes behind it: it would say it aloud.
    """

    def __init__(self, adapter: OmniAdapter, row: Row, begun: str, num_left_out: int = 0) -> None:
        # Sound is counted by its length, elsewhere.
        num_sounds = 0 if row.embedded is None else len(row.embedded.positions)
        super().__init__(adapter, len(row.prompt_token_ids) - num_sounds, begun, num_left_out)
        self._ids = list(row.prompt_token_ids)
        self._num_prompt_ids = len(self._ids)
        self._is_sound = np.zeros(len(self._ids), np.bool_)
        if row.embedded is not None:
            self._is_sound[row.embedded.positions] = True
        self._num_told = 0
        self._call_at: int | None = None
        if OPEN in begun:
            self._call_at = self._num_prompt_ids - adapter.num_tokens(begun[begun.index(OPEN) :])

    def feed(self, burst: Burst) -> Payload | None:
        self._ids += burst.token_ids
        payload = super().feed(burst)
        assert payload is not None, "a thinker tells of each burst"
        if self._call_at is None and (self._calls.is_open or self._calls.num_calls):
            self._call_at = len(self._ids) - self._num_called(burst.token_ids)
        if burst.states is None:
            # A replay: what was told of these tokens came through. Or nobody reads the rows.
            self._num_told = len(self._ids) - 1
            return payload
        is_last = burst.finish_reason is not None
        payload["thought"][KEY] = pack_thought(self._rows(burst.states, is_last=is_last))
        return payload

    def _rows(self, states: States, *, is_last: bool) -> Thought:
        states = states.behind(self._num_told)
        first, end = self._num_told, self._num_told + len(states.hidden)
        self._num_told = end
        if self._call_at is not None:
            end = max(first, min(end, self._call_at))
        num_rows = end - first
        is_prompt = first < self._num_prompt_ids
        multimodal = self._is_sound[:num_rows] if is_prompt else np.zeros(num_rows, np.bool_)
        return Thought(
            token_ids=np.array(self._ids[first:end], np.int64),
            embeddings=states.embeddings[:num_rows],
            hidden=states.hidden[:num_rows],
            multimodal=multimodal,
            is_prompt=is_prompt,
            is_last=is_last,
        )

    def _num_called(self, token_ids: Sequence[int]) -> int:
        """Of tokens in which a call begins, those from its tag on.

        All of them where the tag has begun before: that of the published models is one token.
        """
        texts = (self._adapter.decode(token_ids[: i + 1]) for i in range(len(token_ids)))
        index = next((i for i, text in enumerate(texts) if OPEN in text), 0)
        return len(token_ids) - index


def load(context: StageContext) -> OmniAdapter:
    """The adapter, with the checkpoint's tokenizer. Raises ``ConfigError``."""
    llm = context.stage.llm
    assert llm is not None, "vLLM stages have a model"
    if context.stage_id == 0:
        raise ConfigError(f"stage {context.stage.name!r} must come behind one that hears")
    if not llm.tell_states:
        raise ConfigError(f"stage {context.stage.name!r}: llm: tell_states must be true")
    options = context.read_options(ThinkerOptions)
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(llm.checkpoint, revision=llm.revision)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the tokenizer of {llm.checkpoint!r}: {error}") from error
    return OmniAdapter(tokenizer, options, read_facts(llm.checkpoint, llm.revision))


def read_facts(checkpoint: str, revision: str | None = None) -> ThinkerFacts:
    """What a checkpoint's configuration says of its thinker. Raises ``ConfigError``."""
    from transformers import AutoConfig, GenerationConfig

    try:
        config = AutoConfig.from_pretrained(checkpoint, revision=revision).thinker_config
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{checkpoint!r} is no omni model: {error}") from error
    stops = [config.get_text_config().eos_token_id, getattr(config, "eos_token_id", None)]
    try:
        said = GenerationConfig.from_pretrained(checkpoint, revision=revision).to_dict()
    except OSError:
        said = {}
    stops += [said.get("eos_token_id"), said.get("thinker_eos_token_id")]
    return ThinkerFacts(int(config.audio_token_id), tuple(dict.fromkeys(_ids(stops))))


def _ids(values: Iterable[Any]) -> list[int]:
    """Ids of a configuration, where one, several or none may stand."""
    found: list[int] = []
    for value in values:
        if value is not None:
            found += value if isinstance(value, list) else [value]
    return found


def _texts(messages: Iterable[dict[str, Any]]) -> Iterable[str]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield content
        for part in content if isinstance(content, list) else ():
            yield part.get("text", "")
