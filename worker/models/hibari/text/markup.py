"""HTML and SSML: entities unescaped, tags removed, blocks kept apart."""

import html
import re
from collections.abc import Iterator

from worker.models.hibari.text.draft import Draft, Edit

_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

# A tag's name touches the bracket; what follows is attributes with values, or the name is known.
# "a <b and c> d" stays text. Every repeat is bounded, so a "<" costs constant time.
_NAMES = (
    "abbr|article|audio|blockquote|body|br|button|center|code|dd|details|div|dl|dt|em|font|"
    "footer|form|h[1-6]|head|header|hr|html|iframe|img|input|label|li|link|main|mark|meta|nav|"
    "ol|option|pre|section|select|small|source|span|strong|sub|summary|sup|svg|table|tbody|"
    "td|th|thead|title|tr|ul|video|script|style|speak|break|prosody|emphasis|phoneme|say-as|voice"
)
_TAG = re.compile(
    rf"</?(?:{_NAMES})(?=[\s/>])[^<>]{{0,2000}}>"
    r"|</?[A-Za-z][\w:.-]{0,40}(?:\s{1,9}[\w:@.-]{1,40}=(?:\"[^\"<>]{0,500}\"|'[^'<>]{0,500}'"
    r"|[^\s\"'<>=]{1,500})){0,30}\s{0,9}/?>"
    r"|<[!?][A-Za-z][^<>]{0,500}>",
    re.IGNORECASE,
)
_TAG_NAME = re.compile(r"</?([A-Za-z0-9-]*)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_BLOCKS = _words(
    "article blockquote body br center dd details div dl dt footer form h1 h2 h3 h4 h5 h6 head "
    "header hr html li main nav ol option p pre section summary table tbody thead title tr ul"
)
_PAUSES = frozenset(("td", "th", "break"))
_UNSPOKEN = re.compile(r"<!--|<(script|style)\b", re.IGNORECASE)
_AUTOLINK = re.compile(r"<((?:https?://|mailto:|[\w.+-]{1,64}@)[^\s<>]{1,2000})>", re.IGNORECASE)


def unescape_entities(draft: Draft) -> None:
    """Turn `&amp;` and its like into characters; an unknown name stays as it is."""
    if "&" in draft.text:
        draft.sub(_ENTITY, _unescape)


def _unescape(match: re.Match[str]) -> str | None:
    new = html.unescape(match.group())
    return new if new != match.group() else None


def strip_tags(draft: Draft) -> None:
    """Remove comments, scripts and tags; a block's tag becomes a line feed."""
    if "<" not in draft.text:
        return
    draft.edit(_unspoken_ranges(draft.text))
    draft.keep(_AUTOLINK)
    draft.sub(_TAG, _read_tag)


def _unspoken_ranges(text: str) -> Iterator[Edit]:
    """Comments and the bodies of scripts and styles; one that never ends is left alone."""
    pos = 0
    lower = text.lower()
    unended: set[str] = set()
    while opening := _UNSPOKEN.search(text, pos):
        closing = "-->" if opening.group(1) is None else f"</{opening.group(1).lower()}"
        end = -1 if closing in unended else lower.find(closing, opening.end())
        if end < 0:
            unended.add(closing)
            pos = opening.end()
            continue
        pos = end + len(closing) if closing == "-->" else end
        yield opening.start(), pos, " "


def _read_tag(match: re.Match[str]) -> str:
    name = _TAG_NAME.match(match.group())
    word = name.group(1).lower() if name else ""
    if word in _BLOCKS:
        return "\n"
    return ", " if word in _PAUSES else ""
