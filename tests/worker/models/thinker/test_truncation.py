"""What goes from a prompt where not all of a conversation fits, and what never does."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequestError
from worker.models.thinker.truncation import (
    Message,
    Outline,
    Truncation,
    num_user_messages,
    outline,
    read_truncation,
)

KINDS = ("user", "answer", "system", "call", "calls")


def said(kind: str, number: int) -> list[Message]:
    """What comes with one event of a conversation; each text is another one."""
    text = f"{kind} {number}"
    if kind not in ("call", "calls"):
        return [{"role": "assistant" if kind == "answer" else kind, "content": text}]
    ids = [f"{number}.{index}" for index in range(len(kind) - 3)]
    calls = [{"id": name, "function": {"name": "f", "arguments": "{}"}} for name in ids]
    asked = {"role": "assistant", "content": None, "tool_calls": calls}
    return [asked, *({"role": "tool", "tool_call_id": name, "content": text} for name in ids)]


@dataclass(frozen=True, slots=True)
class Case:
    messages: list[Message]
    costs: list[int]
    limit: int
    ratio: float

    @property
    def outline(self) -> Outline:
        return outline(self.messages)

    @property
    def num(self) -> int:
        return self.outline.num_dropped(self.costs, self.limit, self.ratio)

    @property
    def dropped(self) -> set[int]:
        return self.outline.dropped(self.num)

    @property
    def kept(self) -> list[int]:
        dropped = self.dropped
        return [i for i in range(len(self.messages)) if i not in dropped]

    def role(self, index: int) -> str:
        return str(self.messages[index]["role"])


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=30))
    if draw(st.booleans()):
        kinds = ["system", *kinds]
    messages = [m for number, kind in enumerate(kinds) for m in said(kind, number)]
    size = len(messages)
    costs = draw(st.lists(st.integers(1, 50), min_size=size, max_size=size))
    limit = draw(st.integers(0, 400))
    return Case(messages, costs, limit, draw(st.floats(0, 1)))


@given(cases())
def test_instructions_and_what_is_to_be_answered_never_go(case: Case) -> None:
    users = [i for i in range(len(case.messages)) if case.role(i) == "user"]
    assert not {i for i in case.dropped if case.role(i) == "system"}
    assert case.kept[-1] == len(case.messages) - 1
    assert not users or users[-1] in case.kept


@given(cases())
def test_calls_go_with_their_results(case: Case) -> None:
    kept = [case.messages[i] for i in case.kept]
    called = [call["id"] for message in kept for call in message.get("tool_calls", ())]
    assert called == [m["tool_call_id"] for m in kept if m["role"] == "tool"]


@given(cases())
def test_the_oldest_go_first_and_a_question_with_its_answer(case: Case) -> None:
    spoken = [i for i in range(len(case.messages)) if case.role(i) != "system"]
    newest = max((i for i in spoken if case.role(i) == "user"), default=-1)
    kept = [i for i in case.kept if i in spoken]
    for part in ([i for i in spoken if i < newest], [i for i in spoken if i > newest]):
        left = [i for i in part if i in kept]
        assert left == part[len(part) - len(left) :]
    if len(kept) < len(spoken) and newest >= 0:
        assert case.role(kept[0]) == "user"


@given(cases())
def test_what_is_left_fits_or_is_all_that_must_stay(case: Case) -> None:
    left = [i for i in case.kept if i >= case.outline.num_leading]
    fits = sum(case.costs[i] for i in left) <= case.limit
    assert fits or case.num == len(case.outline.groups)


@given(cases())
def test_nothing_goes_that_has_room(case: Case) -> None:
    behind = sum(case.costs[case.outline.num_leading :])
    assert behind > case.limit or not case.dropped
    assert bool(case.dropped) == (behind > case.limit and bool(case.outline.groups))


@given(cases())
def test_what_has_gone_never_comes_back(case: Case) -> None:
    ends = [i for i in range(1, len(case.messages) + 1) if is_whole(case.messages, i)]
    before: set[int] = set()
    for end in ends:
        now = Case(case.messages[:end], case.costs[:end], case.limit, case.ratio).dropped
        assert before <= now
        before = now


def is_whole(messages: list[Message], end: int) -> bool:
    """Whether no result of a call is still to come."""
    return end == len(messages) or messages[end]["role"] != "tool"


def starts(ratio: float) -> list[int]:
    """With how many messages left out each of 40 turns is asked."""
    turns = [said(kind, n) for n in range(40) for kind in ("user", "answer")]
    messages = list(itertools.chain.from_iterable(turns))
    asked = range(1, len(messages) + 1, 2)
    return [len(Case(messages[:end], [5] * end, 100, ratio).dropped) for end in asked]


def test_a_share_that_is_left_keeps_the_beginning_of_many_prompts() -> None:
    assert len(set(starts(0.5))) <= 9
    assert len(set(starts(1.0))) > 25
    assert starts(0.5) == sorted(starts(0.5))


def test_of_what_is_said_again_and_again_the_last_stays() -> None:
    note = {"role": "system", "content": "Nobody has spoken."}
    turns = [[*said("user", n), *said("answer", n), note] for n in range(4)]
    messages = [*said("system", 0), *itertools.chain.from_iterable(turns)]
    case = Case(messages, [10] * len(messages), 60, 1.0)
    assert [case.messages[i] for i in case.kept] == [messages[0], *turns[2], *turns[3]]


def test_steps_of_a_long_turn_go_before_its_question_does() -> None:
    steps = [said("call", n) for n in range(5)]
    messages = [*said("user", 0), *said("answer", 0), *said("user", 1), *itertools.chain(*steps)]
    case = Case(messages, [10] * len(messages), 55, 1.0)
    assert [case.messages[i] for i in case.kept] == [messages[2], *steps[3], *steps[4]]
    assert num_user_messages(messages, case.dropped) == 1


def test_the_limit_is_the_smaller_one() -> None:
    assert Truncation().limit(70) == 70
    assert Truncation(post_instructions=50).limit(70) == 50
    assert Truncation(post_instructions=90).limit(70) == 70
    assert Truncation().limit(-3) == 0


@pytest.mark.parametrize(
    ("given_truncation", "named"),
    [
        ("auto", "object"),
        ({"retention_ratio": 2}, "retention_ratio"),
        ({"post_instructions": -1}, "post_instructions"),
        ({"post_instructions": 1.5}, "post_instructions"),
        ({"ratio": 1}, "ratio"),
    ],
)
def test_what_is_no_truncation_is_refused_by_name(given_truncation: Any, named: str) -> None:
    with pytest.raises(InvalidRequestError, match=named) as caught:
        read_truncation(given_truncation)
    assert caught.value.param == "truncation"


def test_without_truncation_all_is_asked() -> None:
    assert read_truncation(None) is None
    assert read_truncation({}) == Truncation()
