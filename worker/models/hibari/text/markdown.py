"""Markdown: structure becomes pauses, markers disappear, words stay."""

import re
from collections.abc import Iterator

from worker.models.hibari.text.draft import Draft, Edit

# Inline forms. Labels and targets are bounded, so that an unmatched bracket costs constant time.
_IMAGE_OR_LINK = re.compile(
    r"!?\[([^\[\]\n]{1,500})\](?:\([^()\s]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?(?:\s[^()\n]{0,200})?\)|\[[^\[\]\n]{0,200}\])"
)
_WIKI_LINK = re.compile(r"\[\[(?:[^\[\]|\n]{1,200}\|)?([^\[\]|\n]{1,500})\]\]")
_EMPTY_LINK = re.compile(r"!?\[\s{0,9}\]\([^()\n]{0,2000}\)")
_FOOTNOTE = re.compile(r"\[\^[^\[\]\s]{1,40}\]:?")
_CODE = re.compile(r"(`{1,3})(?!`)([^`\n]{1,500})\1(?!`)")
_ACTION = re.compile(
    r"(?:(?<=[.!?…]\s)|(?<=[.!?…][\"')]\s)|^)\*([A-Z][^*\n]{1,200}\s[^*\n]{0,200}[^*\s.,;:!?…])\*(?=\s+[A-Z\"']|\s*$)",
    re.MULTILINE,
)
# Markers go whether or not they pair: they carry no words. A star between digits or spaces stays,
# and so do the underscores inside a name.
_POWER = re.compile(r"(?<=\w)\*\*(?=\d)")
_STARS = re.compile(r"(?<=\S)(?<!\d)\*+|\*+(?=[^\s*\d])|(?<=\d)\*+(?=[^\s\d*]|$)|(?<!\S)\*+(?=\d)")
_STRUCK = re.compile(r"~~+")
_UNDERLINES = re.compile(r"(?<![^\W_])_+(?=[^\W_])|(?<=[^\W_])_+(?!\w)")

# Line forms.
_FENCE = re.compile(r"^[ ]{0,12}(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_RULE = re.compile(
    r"^[ ]{0,3}(?:=++|(?:-[ ]?){3,}+|(?:\*[ ]?){3,}+|(?:_[ ]?){3,}+)[ ]*$", re.MULTILINE
)
_TABLE_RULE = re.compile(
    r"^[ ]{0,12}\|?(?:[ ]?:?-{2,}+:?[ ]?\|)+(?:[ ]?:?-{2,}+:?[ ]?)?$", re.MULTILINE
)
_TABLE_ROW = re.compile(r"^[ ]{0,12}\|(?=[^\n]*\|[ ]*$)[^\n]*$", re.MULTILINE)
_QUOTE = re.compile(r"^[ ]{0,3}(?:>[ ]?)++(?=\S|$)", re.MULTILINE)
_HEADING = re.compile(r"^[ ]{0,3}#{1,6}(?=[ \n]|$)[ ]*([^\n]*)$", re.MULTILINE)
_ITEM = re.compile(
    r"^[ ]{0,24}(?:[-*+•](?=\s|•)|(\d{1,3})[.)](?=[ ]|$))[ ]*(?:\[[ xX]?\][ ])?([^\n]*)$",
    re.MULTILINE,
)
_LINE_END = re.compile(r"[ #]*$")


def read_inline(draft: Draft) -> None:
    """Links and images keep their label, code and emphasis their words."""
    text = draft.text
    if "[" in text:
        draft.sub(_FOOTNOTE, "")
        draft.sub(_EMPTY_LINK, " ")
        draft.keep(_IMAGE_OR_LINK)
        draft.keep(_WIKI_LINK)
    if "`" in text:
        draft.keep(_CODE, 2)


def read_lines(draft: Draft) -> None:
    """Headings, lists, tables, quotations and rules; run after addresses have been read."""
    text = draft.text
    if "```" in text or "~~~" in text:
        draft.sub(_FENCE, "")
    if "|" in text:
        draft.sub(_TABLE_RULE, "")
        draft.edit(_read_rows(draft.text))
    draft.sub(_RULE, "")
    if ">" in text:
        draft.sub(_QUOTE, "")
    if "#" in text:
        draft.edit(_read_headings(draft.text))
    draft.edit(_read_items(draft.text))


def read_emphasis(draft: Draft) -> None:
    """Stars, underlines and strike-through around words; an acted clause gets its own stop."""
    if "*" in draft.text:
        draft.keep(_ACTION, after=".")
        draft.sub(_POWER, " to the power of ")
        draft.sub(_STARS, "")
    if "_" in draft.text:
        draft.sub(_UNDERLINES, "")
    if "~~" in draft.text:
        draft.sub(_STRUCK, "")


def _read_rows(text: str) -> Iterator[Edit]:
    for row in _TABLE_ROW.finditer(text):
        bars = [i for i in range(row.start(), row.end()) if text[i] == "|"]
        yield row.start(), bars[0] + 1, ""
        for bar in bars[1:-1]:
            yield bar, bar + 1, ", "
        yield bars[-1], row.end(), "." if len(bars) > 1 else ""


def _read_headings(text: str) -> Iterator[Edit]:
    for heading in _HEADING.finditer(text):
        yield heading.start(), heading.start(1), ""
        yield from _close_line(text, heading.start(1), heading.end())


def _read_items(text: str) -> Iterator[Edit]:
    for item in _ITEM.finditer(text):
        if item.group(1) is None:
            yield item.start(), item.start(2), ""
        else:
            yield item.start(), item.start(1), ""
            stop = ", " if item.group(2) else "."
            yield item.end(1), item.start(2), stop
        yield from _close_line(text, item.start(2), item.end())


def _close_line(text: str, start: int, end: int) -> Iterator[Edit]:
    """Let a line that stands alone end as a sentence does."""
    body = text[start:end].rstrip(" #")
    if body:
        stop = "" if body[-1] in ".,;:!?…" or body[-2:] in ('."', '!"', '?"', ".)", "?)") else "."
        yield start + len(body), end, stop
