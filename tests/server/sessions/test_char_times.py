"""Character times: monotone, and of the very text that was sent."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.sessions.char_times import CharClock, CharTimes, in_ms
from server.sessions.spoken import TextLog, WordTime

TEXT = "It cost $3.50, she said.  Really?"
WORDS = [
    WordTime(100, 200, 0, 2),
    WordTime(300, 500, 3, 7),
    WordTime(600, 1200, 8, 14),
    WordTime(1300, 1400, 15, 18),
    WordTime(1400, 1600, 19, 24),
    WordTime(2100, 2400, 26, 33),
]


def clock(text: str = TEXT, *, pads: bool = False) -> CharClock:
    log = TextLog()
    log.append(text)
    return CharClock(log, pads=pads)


def shown(times: CharTimes | None) -> str:
    return "" if times is None else "".join(times.chars)


def test_characters_share_the_time_of_their_word_and_spaces_the_time_between() -> None:
    known = clock("Hi you")
    known.add([WordTime(10, 30, 0, 2), WordTime(50, 80, 3, 6)], 100, (0, 6, True))
    times = known.take(begun_only=False)

    assert times is not None
    assert list(zip(times.chars, times.starts, times.ends, strict=True)) == [
        ("H", 10, 20),
        ("i", 20, 30),
        (" ", 30, 50),
        ("y", 50, 60),
        ("o", 60, 70),
        ("u", 70, 80),
    ]


def test_words_are_told_when_they_begin_or_all_at_once() -> None:
    careful, eager = clock(), clock()
    for known in (careful, eager):
        known.add(WORDS[:5], 400, (0, 24, False))

    assert shown(careful.take(begun_only=True)) == "It cost"
    assert careful.take(begun_only=True) is None
    assert shown(eager.take(begun_only=False)) == "It cost $3.50, she said."


def test_white_space_behind_a_sentence_goes_with_it() -> None:
    known = clock()
    known.add(WORDS[:5], 2000, (0, 24, True))
    first = known.take(begun_only=True)
    known.add(WORDS[5:], 500, (26, 33, True))
    second = known.take(begun_only=True)

    assert shown(first) == "It cost $3.50, she said.  "
    assert first is not None
    assert second is not None
    assert first.ends[-1] == 2000 == second.origin
    assert shown(second) == "Really?"


def test_a_sentence_without_a_space_behind_it_gets_one_of_no_duration() -> None:
    known = clock("Hi.", pads=True)
    known.add([WordTime(10, 30, 0, 3)], 100, (0, 3, True))
    times = known.take(begun_only=True)

    assert shown(times) == "Hi. "
    assert times is not None
    assert (times.starts[-1], times.ends[-1]) == (100, 100)


def test_text_that_has_no_words_is_told_with_its_sentence() -> None:
    known = clock("Hi. ... You")
    known.add([WordTime(10, 30, 0, 3)], 100, (0, 3, True))
    known.add([], 50, (4, 7, True))
    known.add([WordTime(160, 190, 8, 11)], 100, (8, 11, False))

    assert shown(known.take_rest()) == "Hi. ... You"


def test_without_any_word_times_nothing_is_told() -> None:
    known = clock("Hi.")
    known.add([], 100, None)

    assert known.take(begun_only=False) is None
    assert known.take_rest() is None


@given(st.lists(st.integers(1, 2500), max_size=12), st.booleans(), st.booleans())
def test_however_it_comes_the_text_is_covered_in_order(
    cuts: list[int], begun_only: bool, pads: bool
) -> None:
    """Words come with the piece of audio in which they begin; sentences end where they end."""
    known, told = clock(pads=pads), []
    bounds = sorted({0, 2000, 2500, *cuts})
    for first, last in pairwise(bounds):
        words = [word for word in WORDS if first <= word.first_sample < last]
        sentence = (0, 24, last == 2000) if last <= 2000 else (26, 33, last == 2500)
        known.add(words, last - first, sentence)
        told += [known.take(begun_only=begun_only)]
    parts = [times for times in (*told, known.take_rest()) if times is not None]
    starts = [at for times in parts for at in times.starts]
    ends = [at for times in parts for at in times.ends]

    assert "".join(shown(times) for times in parts).rstrip() == TEXT
    assert all(a <= b for a, b in zip(starts, ends, strict=True))
    assert all(end <= start for end, start in zip(ends[:-1], starts[1:], strict=True))
    assert ends[-1] <= 2500
    for before, after in pairwise(parts):
        assert after.origin == before.ends[-1]


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.integers(8000, 48000))
def test_durations_in_ms_add_up(places: list[int], rate: int) -> None:
    bounds = sorted(places)
    times = CharTimes(bounds[0])
    for first, last in pairwise(bounds):
        times.add("x", first, last)
    rows = list(in_ms(times, rate, bounds[0]))

    assert sum(duration for _, _, duration in rows) == round(bounds[-1] * 1000 / rate) - round(
        bounds[0] * 1000 / rate
    )
    assert all(a[1] + a[2] == b[1] for a, b in pairwise(rows))
