"""Reading Markdown: structure becomes pauses and no markup dictates phonemes."""

import pytest

from worker.models.hibari.text.clean import clean_text

CASES = [
    ("### Example Heading\nHere is a paragraph.", "Example Heading.\nHere is a paragraph."),
    ("# Title #", "Title."),
    (
        "My name is Henry. *Holds out hand* Nice to meet you.",
        "My name is Henry. Holds out hand. Nice to meet you.",
    ),
    (
        "---\nHow to verify and fix:\n1. Check ACLs…\n2.",
        "How to verify and fix:\n1, Check ACLs…\n2.",
    ),
    ("- one\n- two\n* three", "one.\ntwo.\nthree."),
    ("1) first\n2) second.", "1, first.\n2, second."),
    ("- [ ] todo\n- [x] done", "todo.\ndone."),
    ("| Name | Age |\n|------|-----|\n| Bob  | 5 |", "Name, Age.\n\nBob, 5."),
    ("`code` and ``more``", "code and more"),
    ("```python\nprint(1)\n```", "print (1)"),
    ("**bold** and *italic* and ***both***", "bold and italic and both"),
    ("__bold__ and _italic_", "bold and italic"),
    ("~~gone~~", "gone"),
    ("snake_case_name", "snake case name"),
    ("__init__", "init"),
    ("[text](https://example.com/page)", "text"),
    ("[x](/fəʊ/)", "x"),
    ("[x](/f/) and [y](/g/)", "x and y"),
    ("[[x]]", "x"),
    ("[[Page|label]]", "label"),
    ("![alt text](image.png)", "alt text"),
    ("![](image.png) after", "after"),
    ("[ref][1] and [1]: note", "ref and (1): note"),
    ("note[^1] here", "note here"),
    ("> quoted\n> more", "quoted more"),
    ("* * *", ""),
    ("___", ""),
    ("Title\n=====\nText", "Title\n\nText"),
    ("a * b", "a times b"),
    ("2*3 = 6", "2 times 3 equals 6"),
    ("x**2", "x to the power of 2"),
    ("*", ""),
    ("**unclosed bold", "unclosed bold"),
    ("*open and close*", "open and close"),
    ("`unclosed", "unclosed"),
    ("Emphasis in the mid*dle* of it", "Emphasis in the middle of it"),
    ("1. Only one item", "1, Only one item."),
    ("In 1999.\n2. item", "In 1999.\n2, item."),
    ("+ plus item", "plus item."),
    ("• bullet\n• more", "bullet.\nmore."),
    ("a | b", "a, b"),
    ("#hashtag is #1", "hashtag hashtag is number 1"),
    ("####### seven", "seven."),
    ("#", ""),
    ("[a](b\n[c](d)", "(a)(b c"),
    ('[link](http://a.com "title")', "link"),
    ("Line one\\nstill", "Line one backslash nstill"),
]


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_structure_becomes_pauses(text: str, expected: str) -> None:
    assert clean_text(text).text == expected


BRACKETED = ["[x](/fəʊ/)", "&#91;x](/f/)", "[a](b", "[[x]](/f/)", "［x］(/f/)", "[\u200bx](/f/)"]


@pytest.mark.parametrize("text", BRACKETED)
def test_no_link_reaches_the_g2p(text: str) -> None:
    assert not set("[]{}") & set(clean_text(text).text)
