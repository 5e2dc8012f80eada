"""A request's text as phoneme chunks, whole or in pieces."""

from __future__ import annotations

import itertools
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.models.hibari.text.clean import CleanText, clean_text, pack_clean, unpack_clean
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import Phonemizer
from worker.models.hibari.text_source import Speaker, SpokenChunk, TextSource

pytestmark = pytest.mark.model

PHONEMIZERS = {british: Phonemizer(british) for british in (False, True)}
TEXT = "One is here. Two is there! Is three anywhere? Four, of course, is not."


def source() -> TextSource:
    return TextSource(PHONEMIZERS, Speaker(1.0, False, "", {}))


def take_all(text_source: TextSource) -> list[SpokenChunk]:
    chunks = []
    while (chunk := text_source.take()) is not None:
        chunks.append(chunk)
    return chunks


def said(chunks: list[SpokenChunk]) -> list[str]:
    return [chunk.phonemes.phonemes for chunk in chunks]


def whole() -> TextSource:
    text_source = source()
    text_source.put_clean(clean_text(TEXT))
    return text_source


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_pieces_say_what_the_whole_says_at_the_same_places(cuts: list[int]) -> None:
    expected = take_all(whole())
    pieces, chunks = source(), []
    bounds = [0, *sorted(cuts), len(TEXT)]
    for start, end in itertools.pairwise(bounds):
        pieces.feed(TEXT[start:end], start)
        chunks += take_all(pieces)
    pieces.flush()
    chunks += take_all(pieces)
    assert said(chunks) == said(expected)
    for chunk, other in zip(chunks, expected, strict=True):
        places = [chunk.locate(word.text) for word in chunk.phonemes.words]
        assert places == [other.locate(word.text) for word in other.phonemes.words]


def test_words_are_found_in_the_original_text() -> None:
    text_source = source()
    text = "\u201cIt cost $3.50,\u201d she said."
    text_source.put_clean(clean_text(text))
    (chunk,) = take_all(text_source)
    places = [chunk.locate(word.text) for word in chunk.phonemes.words]
    assert text[places[2].start : places[2].end].startswith("$3.50")
    assert places[-1] == Span(text.index("said"), len(text))


def test_the_last_chunk_is_known_to_be_the_last_when_it_is_taken() -> None:
    text_source = whole()
    left = []
    while text_source.take() is not None:
        left.append(not text_source.is_exhausted)
    assert left == [True, True, True, False]


def test_a_flush_speaks_what_no_sentence_end_has_completed() -> None:
    text_source = source()
    text_source.feed("Hello there", 0)
    assert text_source.is_exhausted
    assert not text_source.is_empty
    text_source.flush()
    assert len(take_all(text_source)) == 1
    assert text_source.is_empty


def test_an_update_of_the_speaker_counts_from_the_text_after_it() -> None:
    text_source = source()
    text_source.feed("Hello there, my", 0)
    text_source.update(Speaker(2.0, False, "", {}))
    text_source.feed(" good friend.", 15)
    text_source.flush()
    assert [chunk.speaker.speed for chunk in take_all(text_source)] == [1.0, 2.0]


def test_text_with_nothing_to_say_gives_nothing() -> None:
    text_source = source()
    text_source.feed("... ?! \U0001f600", 0)
    text_source.flush()
    assert take_all(text_source) == []
    assert text_source.is_empty


def warnings_of(text: str, cuts: tuple[int, ...] = ()) -> list[tuple[str, ...]]:
    """Those of each chunk, when the text comes in pieces."""
    pieces, chunks = source(), []
    for start, end in itertools.pairwise([0, *cuts, len(text)]):
        pieces.feed(text[start:end], start)
        chunks += take_all(pieces)
    pieces.flush()
    return [chunk.warnings for chunk in chunks + take_all(pieces)]


@pytest.mark.parametrize("cuts", [(), (7,), (7, 11), tuple(range(1, 29))])
def test_warnings_come_with_the_next_chunk_whenever_their_text_came(cuts: tuple[int, ...]) -> None:
    text = "One. 中中. Two 文. And three. 文."
    han = "skipped {} of Han script"

    assert warnings_of(text, cuts) == [
        (),
        (han.format("2 characters"), han.format("1 character")),
        (),
    ]


def test_warnings_behind_the_last_chunk_are_left_to_be_taken() -> None:
    pieces = source()
    pieces.feed("One. 中中.", 0)
    pieces.flush()
    assert [chunk.warnings for chunk in take_all(pieces)] == [()]
    assert pieces.has_warnings
    assert pieces.take_warnings() == ("skipped 2 characters of Han script",)
    assert not pieces.has_warnings
    assert pieces.take_warnings() == ()


def test_a_text_that_came_whole_was_warned_of_before() -> None:
    text_source = source()
    text_source.put_clean(unpack_clean(pack_clean(clean_text("One 中."))))

    assert [chunk.warnings for chunk in take_all(text_source)] == [()]


def test_a_word_that_cannot_be_read_is_told_with_its_chunk_or_behind_the_last() -> None:
    number = "1" * 60
    text = f"Before {number} after. {number}."
    text_source = source()
    places = array("I", range(len(text) + 1))
    text_source.put_clean(CleanText(text, places[:-1], places[1:], (), True))

    told = "skipped a word that could not be read"
    assert [chunk.warnings for chunk in take_all(text_source)] == [(told,)]
    assert text_source.take_warnings() == (told,)
