"""The thinker as a language-model stage: any chat model that vLLM runs, with its own template.

A request is one passage: its messages through the model's chat template. What comes of it are the
same thoughts as those of a model elsewhere (``worker.models.thinker.openai_stage``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from engine.errors import ConfigError, InvalidRequestError
from engine.messages import Payload, SamplingParams, StageInteraction, StageRequest, StageUpdate
from worker.models.thinker.answer_form import (
    FIELD,
    AnswerForm,
    check_form,
    make_form,
    read_format,
)
from worker.models.thinker.chat_prompt import open_reasoning, template_messages
from worker.models.thinker.fitting import Fitted, Fitting
from worker.models.thinker.hermes_calls import CLOSE, OPEN, HermesCalls
from worker.models.thinker.question import Question
from worker.models.thinker.spoken import SpokenText
from worker.models.thinker.tool_choice import read_tooling
from worker.models.thinker.truncation import read_truncation
from worker.stage_model import StageContext
from worker.vllm.adapter import Burst, Passage, PassageSource, Row
from worker.vllm.sampling import TokenSampling, read_sampling

# Chat fields and what they are called here.
_RENAMED = {"max_completion_tokens": "max_tokens"}
_NAMED = ("temperature", "top_p", "top_k", "max_tokens", "seed")
_TEMPLATE_FIELDS = ("chat_template_kwargs",)
# Until vLLM has said how long a prompt may be.
_UNBOUNDED = 2**31


class ChatOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``options`` of the stage.

    ``tool_format``: how the model writes tool calls; ``none`` refuses tools. ``template`` holds
    variables of the model's chat template, such as ``enable_thinking``. ``max_tokens`` bounds an
    answer.
    """

    tool_format: Literal["hermes", "none"] = "hermes"
    template: dict[str, Any] = msgspec.field(default_factory=dict)
    max_tokens: int = 2048
    temperature: float = 0.7
    top_p: float = 0.95


class ChatAdapter:
    """An ``LlmAdapter``."""

    def __init__(self, tokenizer: Any, options: ChatOptions, *, is_first: bool) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._is_first = is_first
        self._fitting = Fitting(self, _UNBOUNDED)

    def set_max_model_len(self, max_model_len: int) -> None:
        self._fitting = Fitting(self, max_model_len)

    def open(self, request: StageRequest, companions: Mapping[str, StageRequest]) -> PassageSource:
        question = self.read_question(request)
        return ChatSource(self, question, request.first_passage, is_whole=self._is_first)

    def read_question(self, request: StageRequest) -> Question:
        """Raises ``InvalidRequestError`` for what the model cannot do."""
        prompt = request.prompt
        given = prompt.get("tooling", {})
        if given.get("tools") and self._options.tool_format == "none":
            raise InvalidRequestError("tools: this model calls none", param="tools")
        tooling = read_tooling(given)
        asked = dict(prompt.get("sampling", {}))
        form = make_form(tooling, read_format(asked.pop(FIELD, None)))
        sampling = self._sampling(asked)
        if tooling.is_single:
            sampling = replace(sampling, stop=(*sampling.stop, CLOSE))
        if form is not None:
            sampling = replace(sampling, grammar=form.grammar)
        truncation = read_truncation(prompt.get("truncation"))
        return Question(prompt["messages"], tooling, sampling, form, truncation)

    def model_files(self) -> Sequence[Path]:
        return ()

    def fit(self, question: Question, sounds: Sequence[int] = ()) -> Fitted:
        """The prompt, which the model can read. ``sounds``: how many tokens each of them is.

        For a thread: the grammar of an answer that must have a form is checked as well. Raises
        ``InvalidRequestError``.
        """
        if question.form is not None:
            check_form(question.form)
        return self._fitting.fit(question, sounds)

    def render(self, question: Question) -> tuple[list[int], str]:
        """The token ids of the prompt, and what of the answer is in it already: it belongs before
        what the model writes. Raises ``InvalidRequestError``.
        """
        messages = self.shown(question.messages)
        try:
            text: str = self._tokenizer.apply_chat_template(
                messages,
                tools=question.tooling.shown or None,
                add_generation_prompt=True,
                tokenize=False,
                **self._options.template,
            )
        except Exception as error:  # templates are programs, and refuse as they like
            raise InvalidRequestError(
                f"the model's chat template refused the messages: {str(error)[:200]}",
                param="messages",
            ) from error
        opening, begun = _begin(open_reasoning(text), question.form)
        # The template has put in what the tokenizer would add.
        return list(self._tokenizer.encode(text + opening, add_special_tokens=False)), begun

    def shown(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The messages as the template gets them. Raises ``InvalidRequestError``."""
        return template_messages(messages)

    def num_tokens(self, text: str) -> int:
        """How many tokens a part of the prompt is."""
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, token_ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(list(token_ids), skip_special_tokens=True)
        return text

    def _sampling(self, given: dict[str, Any]) -> TokenSampling:
        """What the chat API's fields mean here. Raises ``InvalidRequestError`` by name."""
        asked = {_RENAMED.get(key, key): value for key, value in given.items()}
        for key in _TEMPLATE_FIELDS:
            asked.pop(key, None)
        named = {key: asked.pop(key) for key in _NAMED if key in asked}
        stop = asked.get("stop")
        if isinstance(stop, str):
            asked["stop"] = [stop]
        try:
            params = msgspec.convert({**named, "extra": asked}, SamplingParams)
        except msgspec.ValidationError as error:
            raise InvalidRequestError(str(error), param="sampling") from error
        options = self._options
        defaults = TokenSampling(
            max_tokens=options.max_tokens, temperature=options.temperature, top_p=options.top_p
        )
        return read_sampling(params, defaults)


def _begin(tag: str, form: AnswerForm | None) -> tuple[str, str]:
    """What is written for the model behind a prompt that ends inside of ``tag``, if in any; and
    what of its answer is in the prompt then.

    A form leaves no room for reasoning, and JSON none for anything before it.
    """
    begun = f"{tag}\n" if tag else ""
    if form is None:
        return "", begun
    opening = f"</{tag[1:]}\n\n" if tag else ""
    if not form.begins_call:
        return opening, ""
    opening += f"{OPEN}\n"
    return opening, begun + opening


class ChatSource:
    """A ``PassageSource`` of one passage. Behind other stages it begins with their last output."""

    def __init__(
        self,
        adapter: ChatAdapter,
        question: Question,
        first_passage: int,
        *,
        is_whole: bool,
    ) -> None:
        self._adapter = adapter
        self._question = question
        self._is_whole = is_whole
        self._is_taken = first_passage > 0

    def update(self, update: StageUpdate) -> None:
        self._is_whole |= update.final

    def interact(self, interaction: StageInteraction) -> None:
        raise InvalidRequestError(f"an answer takes no {interaction.kind}", param="kind")

    def take(self) -> Passage | None:
        if self._is_taken or not self._is_whole:
            return None
        self._is_taken = True
        fitted = self._adapter.fit(self._question)
        ids = fitted.ids
        return Passage(
            number=0,
            rows=(Row(None, ids),),
            sampling=self._question.sampling,
            sink=ThoughtSink(self._adapter, len(ids), fitted.begun, fitted.num_left_out),
            wants_text=True,
        )

    def closing(self) -> None:
        """Nothing follows the last passage."""

    @property
    def is_empty(self) -> bool:
        return self._is_taken


class ThoughtSink:
    """A ``TokenSink``: tokens to thoughts. ``begun`` is text that comes before theirs.

    ``num_left_out`` of the user's messages, the oldest ones, are not in the prompt.
    """

    def __init__(
        self, adapter: ChatAdapter, num_prompt_tokens: int, begun: str = "", num_left_out: int = 0
    ) -> None:
        self._adapter = adapter
        self._num_left_out = num_left_out
        self._num_prompt_tokens = num_prompt_tokens
        self._num_tokens = 0
        self._begun = begun
        self._spoken = SpokenText()
        self._calls = HermesCalls()

    def feed(self, burst: Burst) -> Payload | None:
        self._num_tokens += len(burst.token_ids)
        # A replay has the tokens and not their text.
        text = self._adapter.decode(burst.token_ids) if burst.is_replay else burst.text
        delta, calls = self._calls.feed(self._begun + text)
        self._begun = ""
        if burst.finish_reason == "stop" and self._calls.is_open:
            # Where one call is all there may be, its end is what the model was stopped at.
            rest, last = self._calls.feed(CLOSE)
            delta, calls = delta + rest, calls + last
        if burst.finish_reason is not None:
            delta += self._calls.finish()
        pieces = self._spoken.feed(delta)
        thought: dict[str, Any] = {"finish_reason": None, "usage": None}
        if burst.finish_reason is not None:
            pieces += self._spoken.finish()
            thought["finish_reason"] = self._reason(burst.finish_reason)
            thought["usage"] = self._usage()
        thought |= {
            "delta": delta,
            "calls": calls,
            "pieces": [[piece.text, piece.offset, piece.breaks] for piece in pieces],
        }
        return {"thought": thought}

    def _reason(self, finish_reason: str) -> str:
        return "tool_calls" if self._calls.num_calls and finish_reason == "stop" else finish_reason

    def _usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self._num_prompt_tokens,
            "completion_tokens": self._num_tokens,
            "cached_tokens": 0,
            "reasoning_tokens": 0,
            "left_out_messages": self._num_left_out,
        }


def load(context: StageContext) -> ChatAdapter:
    """The adapter, with the checkpoint's tokenizer. Raises ``ConfigError``."""
    llm = context.stage.llm
    assert llm is not None, "vLLM stages have a model"
    options = context.read_options(ChatOptions)
    from transformers import AutoTokenizer

    name = llm.tokenizer or llm.checkpoint
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=llm.revision)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load the tokenizer of {name!r}: {error}") from error
    if not tokenizer.chat_template:
        raise ConfigError(f"the tokenizer of {name!r} has no chat template: it is no chat model")
    return ChatAdapter(tokenizer, options, is_first=context.stage_id == 0)
