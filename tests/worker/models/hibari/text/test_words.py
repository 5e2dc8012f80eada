"""Reading words: codes and endless words are spelled or shortened, ordinary words stay."""

import pytest

from worker.models.hibari.text.clean import clean_text

CASES = [
    ("Hmmmm soooo goooood", "Hmm soo good"),
    ("hahahahahahahahahahahahahahahahahahahaha", "hahaha"),
    ("bcdcdcd", "bcdcdcd"),
    ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "xx"),
    ("9f86d081", "9 F 8 6 D 0 8 1"),
    ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "9 F 8 6 D 0 8 1"),
    (
        "123e4567-e89b-12d3-a456-426614174000",
        "1 2 3 E 4 5 6 7, E 8 9 B, 1 2 D 3, eigh 4 5 6, 4 2 6 6 1 4 1 7 4 0 0 0",
    ),
    ("dQw4w9WgXcQ", "D Q W 4 W 9 W G X C Q"),
    ("mp3 x86_64 utf8 A4 B2B", "mp3 x86 64 utf8 A4 B2B"),
    ("SGVsbG8gd29ybGQhIFRoaXMgaXMgYmFzZTY0IGRhdGE=", "S G V S B G 8 G"),
    ("camelCaseName", "camelCaseName"),
    (
        "thisIsAVeryLongCamelCaseIdentifierThatNobodyWouldEverWriteInPractice",
        "this Is AVery Long Camel Case Identifier That Nobody Would Ever Write In Practice",
    ),
    ("antidisestablishmentarianism", "antidisestablishmentarianism"),
    (
        "pneumonoultramicroscopicsilicovolcanoconiosis",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
    ),
    ("state-of-the-art", "state-of-the-art"),
    ("GPT-4o and COVID-19", "GPT-4o and COVID-19"),
    ("snake_case_name_with_2_numbers", "snake case name with 2 numbers"),
    ("--verbose flag", "verbose flag"),
    ("AAAA", "AA"),
    ("word word word ", "word word word"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_words_stay_readable(text: str, expected: str) -> None:
    assert clean_text(text).text == expected


SHORTENED = [
    ("a" * 2000, "aa", "shortened 1 long word"),
    ("qwrtzpsdfgh" * 10, "qwrtzpsdfghqwrtzpsdfghqw", "shortened 1 long word"),
    ("0123456789abcdef" * 4, "0 1 2 3 4 5 6 7", "shortened 1 long code"),
]


@pytest.mark.parametrize(("text", "expected", "warning"), SHORTENED)
def test_endless_words_are_shortened_with_a_warning(text: str, expected: str, warning: str) -> None:
    clean = clean_text(text)
    assert clean.text == expected
    assert clean.warnings == (warning,)
