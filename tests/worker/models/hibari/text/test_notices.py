"""Notices tell each kind of loss once."""

from worker.models.hibari.text.notices import MAX_NOTICES, Notices


def test_counts_of_one_kind_add_up_in_one_sentence() -> None:
    notices = Notices()
    notices.add("skipped", "character{} of Han script")
    notices.add_all([("skipped", "character{} of Han script", 2), ("skipped", "emoji", 1)])
    assert notices.sentences() == ("skipped 3 characters of Han script", "skipped 1 emoji")


def test_many_kinds_end_in_a_summary() -> None:
    notices = Notices()
    for i in range(MAX_NOTICES + 5):
        notices.add("skipped", f"thing{i}")
    assert len(notices.sentences()) == MAX_NOTICES
    assert "more" in notices.sentences()[-1]


def test_exactly_the_limit_is_told_in_full() -> None:
    notices = Notices()
    for i in range(MAX_NOTICES):
        notices.add("skipped", f"thing{i}")
    assert notices.sentences()[-1] == f"skipped 1 thing{MAX_NOTICES - 1}"
