"""Prompts that a model can read, made with a template and a tokenizer of the usual kind."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ContextLengthError
from tests.worker.models.thinker.test_truncation import Case, cases
from tests.worker.models.thinker.tiny_chat import TEMPLATE, tiny_tokenizer
from worker.models.thinker.fitting import Fitted
from worker.models.thinker.question import Question
from worker.models.thinker.tool_choice import Tooling, read_tooling
from worker.models.thinker.truncation import Truncation
from worker.models.thinker.vllm_adapter import ChatAdapter, ChatOptions
from worker.vllm.sampling import TokenSampling

pytestmark = pytest.mark.torch

LENGTH, ANSWER = 400, 50
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
# A token is a byte here.
TURNS: list[dict[str, Any]] = [
    {"role": role, "content": f"{role} {number:02} " + "x" * 20}
    for number in range(20)
    for role in ("user", "assistant")
]
ASKED = [{"role": "system", "content": "Be brief."}, *TURNS, {"role": "user", "content": "Well?"}]


def adapter(template: str = TEMPLATE, max_model_len: int = LENGTH) -> ChatAdapter:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    made = ChatAdapter(tokenizer, ChatOptions(), is_first=True)
    made.set_max_model_len(max_model_len)
    return made


def question(
    messages: list[dict[str, Any]] = ASKED,
    *,
    tooling: Tooling | None = None,
    max_tokens: int = ANSWER,
    **truncation: Any,
) -> Question:
    sampling = TokenSampling(max_tokens=max_tokens)
    may_go = Truncation(**truncation)
    return Question(messages, tooling or Tooling(), sampling, truncation=may_go)


def text(made: ChatAdapter, fitted: Fitted) -> str:
    return made.decode(fitted.ids)


def test_a_long_conversation_loses_its_oldest_exchanges_and_leaves_room_to_answer() -> None:
    made = adapter()
    fitted = made.fit(question())
    shown = text(made, fitted)
    assert shown.startswith("<|system|>Be brief.\n<|user|>user ")
    assert shown.endswith("<|user|>Well?\n<|assistant|>")
    # An exchange takes some 80 tokens, and as many as fit are left.
    assert LENGTH - ANSWER - 85 < len(fitted.ids) <= LENGTH - ANSWER
    assert fitted.num_left_out == 20 - shown.count("<|user|>user")
    assert made.fit(question()) == fitted


def test_what_fits_is_asked_whole() -> None:
    made = adapter()
    short = ASKED[-5:]
    fitted = made.fit(question(short))
    assert fitted.ids == made.render(question(short))[0]
    assert fitted.num_left_out == 0


def test_the_answers_room_is_at_most_half_of_all() -> None:
    made = adapter()
    fitted = made.fit(question(max_tokens=10_000))
    assert LENGTH // 2 - 85 < len(fitted.ids) <= LENGTH // 2


def test_what_must_stay_may_take_the_answers_room_and_no_more() -> None:
    made = adapter()
    for size in (LENGTH - 80, LENGTH - 50):
        long = [*ASKED[:-1], {"role": "user", "content": "x" * size}]
        fitted = made.fit(question(long))
        assert fitted.num_left_out == 20
        assert len(fitted.ids) < LENGTH
    with pytest.raises(ContextLengthError, match="left out; the model reads at most 399") as caught:
        made.fit(question([*ASKED[:-1], {"role": "user", "content": "x" * LENGTH}]))
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "messages")


def test_without_truncation_a_long_conversation_is_refused() -> None:
    whole = Question(ASKED, Tooling(), TokenSampling(max_tokens=ANSWER))
    with pytest.raises(ContextLengthError, match="the model reads at most 399"):
        adapter().fit(whole)
    assert adapter(max_model_len=4000).fit(whole).num_left_out == 0


def test_a_bound_counts_what_comes_behind_instructions_and_tools() -> None:
    made = adapter(max_model_len=2000)
    tooling = read_tooling({"tools": TOOLS})
    fitted = made.fit(question(tooling=tooling, post_instructions=300))
    head = "tool add\n<|system|>Be brief.\n"
    shown = text(made, fitted)
    assert shown.startswith(head)
    behind = len(shown) - len(head) - len("<|assistant|>")
    assert 300 - 85 < behind <= 300
    nothing = made.fit(question(tooling=tooling, post_instructions=0))
    assert text(made, nothing) == f"{head}<|user|>Well?\n<|assistant|>"


def test_a_share_is_left_when_the_limit_is_reached() -> None:
    made = adapter(max_model_len=2000)
    lengths = []
    for num_turns in range(10, 41, 2):
        asked = [*TURNS[:num_turns], ASKED[-1]]
        lengths.append(
            len(made.fit(question(asked, post_instructions=600, retention_ratio=0.5)).ids)
        )
    assert max(lengths) <= 620
    assert any(now < before - 200 for before, now in itertools.pairwise(lengths))


def test_what_a_template_adds_where_nobody_measured_is_counted_in_the_end() -> None:
    wordy = TEMPLATE.replace(
        "{{ message.content }}",
        "{{ message.content }}{% if loop.index % 2 %}{{ 'y' * 60 }}{% endif %}",
    )
    refusing = "{% if messages | length == 3 %}{{ raise_exception('no') }}{% endif %}" + TEMPLATE
    for template in (wordy, refusing):
        made = adapter(template)
        fitted = made.fit(question())
        assert 100 < len(fitted.ids) <= LENGTH - ANSWER


def test_sounds_go_with_their_messages_and_count_as_they_are() -> None:
    made = adapter()
    heard = [{"role": "user", "content": [{"type": "audio"}]}, TURNS[1]]
    asked = [*heard * 6, {"role": "user", "content": [{"type": "audio"}, {"type": "audio"}]}]
    sounds = [60, 61, 62, 63, 64, 65, 66, 67]
    fitted = made.fit(question(asked), sounds)
    assert fitted.num_left_out == 6 - (len(fitted.sounds) - 2)
    assert fitted.sounds == list(range(fitted.num_left_out, 8))
    length = len(fitted.ids) + sum(sounds[number] - 1 for number in fitted.sounds)
    assert LENGTH - ANSWER - 135 < length <= LENGTH - ANSWER
    with pytest.raises(ContextLengthError):
        made.fit(question(asked), [*sounds[:-1], 1000])


@given(cases(), st.integers(60, 600))
def test_any_conversation_fits_or_is_refused(case: Case, length: int) -> None:
    made = adapter(max_model_len=length)
    try:
        fitted = made.fit(question(case.messages, retention_ratio=case.ratio))
    except ContextLengthError:
        last = question(case.messages, post_instructions=0)
        assert len(adapter(max_model_len=2**20).fit(last).ids) >= length
        return
    assert len(fitted.ids) < length
