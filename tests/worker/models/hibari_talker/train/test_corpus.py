"""Prose is kept, code and lists are not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from worker.models.hibari_talker.train.corpus import is_clean, read_sentences


@pytest.mark.parametrize(
    "line",
    [
        "It rained all day.",
        "Is it? Don't be so sure!",
        "He paid $5 for the old lamp (or so he said).",
    ],
)
def test_prose_is_kept(line: str) -> None:
    assert is_clean(line)


@pytest.mark.parametrize(
    "line",
    [
        "Call foo() to stop.",
        "The useOldName option is gone.",
        "Edit sys.path before you start.",
        "lower case start.",
        "No end",
        "Stop.",
        "Number 1234567 is long.",
        "One < two.",
        "Word " * 46 + "end.",
        "1 2 3 4 5 6 7 8 9.",
    ],
)
def test_what_is_no_plain_sentence_is_left_out(line: str) -> None:
    assert not is_clean(line)


def test_every_kind_of_file_is_read_once_in_an_order_of_the_seed(tmp_path: Path) -> None:
    rst = (
        "Title\n=====\n\nUse :func:`print` for\nthis. It is *simple*.\n\n.. note:: Not this one.\n"
    )
    (tmp_path / "a.rst.txt").write_text(rst)
    (tmp_path / "b.u8").write_text(
        "It is simple.\n%\nA city is a large community.\n\t\t-- Nobody\n"
    )
    (tmp_path / "c.dict.dz").write_bytes(gzip.compress(b"Boredom is a state of mind.\n"))
    (tmp_path / "d.html").write_text("This is not read at all.")
    found = read_sentences(tmp_path, 0)
    assert sorted(found) == [
        "A city is a large community.",
        "Boredom is a state of mind.",
        "It is simple.",
        "Use print for this.",
    ]
    assert read_sentences(tmp_path, 0) == found
    assert any(read_sentences(tmp_path, seed) != found for seed in range(1, 6))
