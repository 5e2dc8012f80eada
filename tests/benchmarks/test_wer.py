from __future__ import annotations

from benchmarks.wer import Hearing, judge
from benchmarks.wer_sentences import SENTENCES


def test_there_are_fifty_different_sentences_of_many_kinds() -> None:
    texts = [spellings[0] for spellings in SENTENCES]
    assert len(set(texts)) == 50
    assert sum("?" in text for text in texts) >= 5
    assert sum(any(c.isdigit() for c in text) for text in texts) >= 5
    assert min(len(text.split()) for text in texts) <= 3
    assert max(len(text.split()) for text in texts) >= 20


def test_every_sentence_is_its_own_nearest() -> None:
    hearing = Hearing([judge(s[-1], index, SENTENCES) for index, s in enumerate(SENTENCES)])
    assert hearing.num_mismatched == 0
    assert hearing.wer_percent == 0.0


def test_an_answer_to_another_text_is_noticed() -> None:
    swapped = [judge(SENTENCES[1][0], 0, SENTENCES), judge(SENTENCES[0][0], 1, SENTENCES)]
    assert Hearing(swapped).num_mismatched == 2
    assert Hearing(swapped).wer_percent > 50


def test_a_misheard_word_is_an_error_and_no_mismatch() -> None:
    heard = judge("please close the front floor", 0, SENTENCES)
    assert (heard.num_errors, heard.num_words, heard.nearest) == (1, 5, 0)
