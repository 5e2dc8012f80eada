"""Spoken answers that are kept by id."""

from __future__ import annotations

import pytest

from engine.errors import InvalidRequestError
from server.talk import audio_shelf
from server.talk.audio_shelf import LIFETIME_S, AudioShelf


def test_an_answer_is_kept_for_an_hour() -> None:
    now = [1000.0]
    shelf = AudioShelf(lambda: now[0])
    assert shelf.put("a", "Hello.") == 1000 + LIFETIME_S
    now[0] += LIFETIME_S - 1
    assert shelf.find("a", "id") == "Hello."
    now[0] += 1
    with pytest.raises(InvalidRequestError, match="expired"):
        shelf.find("a", "id")


def test_the_oldest_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_shelf, "_MAX_ANSWERS", 2)
    shelf = AudioShelf()
    for name in "abc":
        shelf.put(name, name)
    with pytest.raises(InvalidRequestError):
        shelf.find("a", "id")
    assert (shelf.find("b", "id"), shelf.find("c", "id")) == ("b", "c")


def test_many_long_answers_stay_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio_shelf, "_MAX_CHARS", 10)
    shelf = AudioShelf()
    shelf.put("a", "x" * 6)
    shelf.put("b", "y" * 6)
    with pytest.raises(InvalidRequestError):
        shelf.find("a", "id")
    assert shelf.find("b", "id") == "y" * 6


def test_ids_differ() -> None:
    shelf = AudioShelf()
    assert len({shelf.new_id() for _ in range(100)}) == 100
