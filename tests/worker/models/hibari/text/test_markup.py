"""Reading HTML and SSML: tags vanish, their words stay, comparisons are no tags."""

import pytest

from worker.models.hibari.text.clean import clean_text

CASES = [
    ("Tom &amp; Jerry", "Tom and Jerry"),
    ("&lt;3 &#65;&#x42; &nbsp;x", "AB x"),
    ("&unknown; stays", "unknown; stays"),
    ("<b>bo</b>ld", "bold"),
    ("<p>One</p><p>Two</p>", "One\n\nTwo"),
    ("a<br/>b", "a b"),
    ("<div class=\"x\" id='y'>text</div>", "text"),
    ("<!-- hidden -->shown", "shown"),
    ("<script>alert(1)</script>safe", "safe"),
    ("<style>p{}</style>safe", "safe"),
    ("<script>never closed", "never closed"),
    ('<speak>Hi <break time="1s"/> there</speak>', "Hi, there"),
    ('<phoneme alphabet="ipa" ph="x">word</phoneme>', "word"),
    ("a < b", "a less than b"),
    ("x<y and y>z", "x less than y and y greater than z"),
    ("if a <b and c> d", "if a less than b and c greater than d"),
    ("1 <2", "1 less than 2"),
    ("<https://example.com>", "example dot com"),
    ("<unknowntag>text", "text"),
    ("<table><tr><td>a</td><td>b</td></tr></table>", "a, b,"),
    ("I <3 you", "I you"),
    ("5 > 3", "5 greater than 3"),
    ("<", ""),
    ("<<<>>>", ""),
    ("&lt;i&gt;italic&lt;/i&gt;", "italic"),
    ("AT&amp;T", "AT and T"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_markup_vanishes_and_its_words_stay(text: str, expected: str) -> None:
    assert clean_text(text).text == expected
