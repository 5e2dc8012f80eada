"""Cues that can be read, in files that players take."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.sessions.spoken import WordTime
from server.subtitles import MAX_LINE_CHARS, Cue, SubtitleFormat, make_cues, write_subtitles

RATE = 1000
CHAR_MS = 60


def spoken(text: str) -> list[WordTime]:
    """Words at an even pace, from the start of the audio on."""
    return [
        WordTime(match.start() * CHAR_MS, match.end() * CHAR_MS, *match.span())
        for match in re.finditer(r"\S+", text)
    ]


def cues_of(text: str, sentences: tuple[tuple[int, int], ...] = ()) -> list[Cue]:
    return make_cues(text, spoken(text), sentences, RATE, len(text) * CHAR_MS)


def lines_of(text: str) -> list[tuple[str, ...]]:
    return [cue.lines for cue in cues_of(text)]


def test_a_short_sentence_is_one_line_with_its_words_times() -> None:
    assert cues_of("Hello there.") == [Cue(0, 12 * CHAR_MS, ("Hello there.",))]


def test_sentences_do_not_share_a_cue() -> None:
    assert lines_of("Hello! Are you there? Yes.") == [("Hello!",), ("Are you there?",), ("Yes.",)]


def test_the_engines_sentences_decide_where_one_ends() -> None:
    text = "Dr. Smith came. He sat."

    cues = cues_of(text, ((0, 15), (16, 23)))

    assert [cue.lines for cue in cues] == [("Dr. Smith came.",), ("He sat.",)]


def test_a_sentence_of_two_lines_is_parted_at_its_clause() -> None:
    text = "When the cloth was done at last, she hung it up at the open window."

    assert lines_of(text) == [
        ("When the cloth was done at last,", "she hung it up at the open window.")
    ]


def test_a_long_sentence_is_parted_between_its_clauses() -> None:
    text = (
        "The weaver, who worked at night when the house was quiet and cold, told the cloth a word "
        "with every row, and in the morning it spoke."
    )

    ends = [lines[-1][-1] for lines in lines_of(text)]

    assert len(ends) > 1
    assert set(ends) <= {",", "."}


def test_a_word_that_is_longer_than_a_line_is_broken() -> None:
    address = "https://example.com/" + "x" * 70

    assert lines_of(f"See {address} now.") == [
        ("See",),
        (address[:42], address[42:84], address[84:]),
        ("now.",),
    ]


def test_a_short_cue_stays_as_long_as_it_may() -> None:
    text = "Oh.                              No."

    first, last = make_cues(text, spoken(text), (), RATE, len(text) * CHAR_MS + 200)

    assert first.end_ms - first.start_ms == 833
    assert last.end_ms == len(text) * CHAR_MS + 200


TEXTS = st.text("ab ,.!?\n<&é中-", max_size=400)


@given(TEXTS)
def test_all_words_are_there_in_order_on_lines_that_fit(text: str) -> None:
    cues = cues_of(text)

    shown = "".join(line for cue in cues for line in cue.lines)
    assert shown.replace(" ", "") == "".join(text.split())
    assert all(0 < len(line) <= MAX_LINE_CHARS for cue in cues for line in cue.lines)
    many = [cue for cue in cues if len(cue.lines) > 2]
    assert all(" " not in "".join(cue.lines) for cue in many)


@given(TEXTS)
def test_cues_follow_each_other_within_the_audio(text: str) -> None:
    times = [time for cue in cues_of(text) for time in (cue.start_ms, cue.end_ms)]

    assert times == sorted(times)
    assert all(0 <= time <= len(text) * CHAR_MS for time in times)


@given(TEXTS)
def test_a_vtt_file_is_read_back_as_it_was_written(text: str) -> None:
    cues = cues_of(text)

    head, *blocks = write_subtitles(cues, SubtitleFormat.VTT).strip("\n").split("\n\n")

    assert head == "WEBVTT"
    assert len(blocks) == len(cues)
    for block, cue in zip(blocks, cues, strict=True):
        times, *lines = block.split("\n")
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}", times)
        assert not any("<" in line or "-->" in line for line in lines)
        plain = [line.replace("&lt;", "<").replace("&amp;", "&") for line in lines]
        assert tuple(plain) == cue.lines


def test_an_srt_file_counts_its_cues() -> None:
    cues = [Cue(0, 3_723_004, ("a", "b & c")), Cue(3_723_004, 3_724_000, ("d",))]

    assert write_subtitles(cues, SubtitleFormat.SRT) == (
        "1\n00:00:00,000 --> 01:02:03,004\na\nb & c\n\n2\n01:02:03,004 --> 01:02:04,000\nd\n"
    )


@pytest.mark.parametrize("fmt", SubtitleFormat)
def test_a_file_without_a_cue_is_still_one(fmt: SubtitleFormat) -> None:
    assert write_subtitles([], fmt) == {"vtt": "WEBVTT\n", "srt": ""}[fmt]
