"""Reading addresses: web and e-mail addresses, files and paths are read as people say them."""

import pytest

from worker.models.hibari.text.clean import clean_text

CASES = [
    (
        "https://www.example.com/a-b?x=1",
        "example dot com slash eigh dash b question mark x equals 1",
    ),
    ("See http://example.com.", "See example dot com."),
    (
        "(see https://en.wikipedia.org/wiki/Foo_(bar))",
        "(see en dot wikipedia dot org slash wiki slash Foo underscore bar)",
    ),
    ("www.bbc.co.uk", "bbc dot co dot U K"),
    ("example.com is short", "example dot com is short"),
    ("https://example.com/", "example dot com"),
    ("ftp://files.example.org/x.zip", "files dot example dot org slash x dot zip"),
    ("https://user:secret@example.com/x", "example dot com slash x"),
    ("https://example.com/a%20b", "example dot com slash eigh b"),
    ("https://example.com/#top", "example dot com slash hash top"),
    ("http://localhost:8000/v1", "localhost colon 8,000 slash version 1"),
    ("john.doe@example.com", "john dot doe at example dot com"),
    (
        "mailto:a_b+c@sub.example.co.uk.",
        "eigh underscore b plus c at sub dot example dot co dot U K.",
    ),
    ("Mail <jane@example.com> now", "Mail jane at example dot com now"),
    ("@user said hi", "at user said hi"),
    ("a @ b", "a at b"),
    ("foo.py", "foo dot P Y"),
    ("my_file-name.txt", "my file name dot text"),
    ("archive.tar.gz", "archive dot T A R dot G Z"),
    ("Node.js", "Node dot J S"),
    ("/usr/local/bin", "slash usr/local/bin"),
    ("~/notes/today", "tilde slash notes/today"),
    ("C:\\Users\\me", "C drive, Users backslash me"),
    ("and/or", "and/or"),
    ("He left.It was late", "He left.It was late"),
    ("done.So what", "done.So what"),
    ("e.g.this", "e.g.this"),
    ("http://", "http:"),
    ("www.", "www."),
    ("@", ""),
    ("a@b", "a at b"),
    ("voxloom.io/docs", "voxloom dot I O slash docs"),
    ("and 24/7 service", "and 24 7 service"),
    ("// comment", "comment"),
    ("EXAMPLE.COM", "EXAMPLE dot COM"),
    ("x.com/", "x dot com"),
    ("1.2.3.4:80", "1 dot 2 dot 3 dot 4:80"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_addresses_are_said_as_people_say_them(text: str, expected: str) -> None:
    assert clean_text(text).text == expected


def test_a_long_address_loses_its_tail_with_a_warning() -> None:
    clean = clean_text("https://example.com/" + "abc/" * 60)
    assert len(clean.text) < 300
    assert clean.warnings == ("shortened 1 long link",)


def test_credentials_in_an_address_are_not_spoken() -> None:
    assert "secret" not in clean_text("https://user:secret@example.com/x").text
