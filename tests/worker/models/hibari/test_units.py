"""Words and their places in the text."""

from __future__ import annotations

from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import WordSpan
from worker.models.hibari.units import place_in_text


def test_what_was_written_as_one_word_is_one_word() -> None:
    said = [WordSpan(1, 4, Span(0, 2)), *(WordSpan(i, i + 2, Span(3, 8)) for i in (5, 8, 11))]

    assert place_in_text(said, lambda span: Span(span.start + 10, span.end + 10)) == [
        (1, 4, 10, 12),
        (5, 13, 13, 18),
    ]
