"""Punctuation and white space in the few forms that the G2P turns into pauses."""

import re

from worker.models.hibari.text.draft import Draft
from worker.models.hibari.text.notices import Notices
from worker.models.hibari.text.symbols import CURRENCIES

# A line this long that ends without punctuation was wrapped by a program, not by its author.
WRAPPED_LINE_CHARS = 60

_EMOTICON = re.compile(r"(?<!\S)(?:[:;=][-'^]?[()DPpOo|/\\*\[\]3]|<3|\^_+\^)(?=\s|[.,!?]|$)")
_ARROW = re.compile(r"\s?(?:<?[-=]{1,3}>)\s?")
_COMPARISON = re.compile(r"\s?([<>=!]=|[<>=])=?\s?")
_COMPARED = {
    "<": " less than ", ">": " greater than ", "=": " equals ",
    "<=": " at most ", ">=": " at least ", "==": " equals ", "!=": " is not ",
}  # fmt: skip
_TIMES = re.compile(r"(?<=[\w)])(?:\s\*\s|(?<=\d)\*(?=\d))(?=[\w(])")
_SHARP = re.compile(r"\b([A-GF])#(?!\w)")
_HASHTAG = re.compile(r"(?<![\w&])#(?=[A-Za-z]\w)")
_ABOUT = re.compile(r"~(?=\s?[\d$€£])")
_BACKSLASH = re.compile(r"(?<=\w)\\+(?=\w)")
_PERCENT_SPACED = re.compile(r"(?<=\d) %")
_PERCENT_ALONE = re.compile(r"(?<![\d\s])%|(?<=\s)%(?=\w)")
_PLUS = re.compile(r"(?<=[\w)])\s?\+\s?(?=[\w(])")
_AND = re.compile(r"\s?&+\s?")
_SIGN = re.compile(f"[{re.escape(''.join(CURRENCIES))}]+")
_DASH = re.compile(r"\s?(?:[—–]+|-{2,}+)[-—–\s]*|(?<=\s)[-—–]+\s")
_JOIN_DASH = re.compile(r"(?<=[A-Za-z])–(?=[A-Za-z])")
_HYPHEN_END = re.compile(r"(?<=\w)-(?=[\s.,;:!?]|$)|(?<![\w])-(?=\s|$)")
_BULLET = re.compile(r"\s?[•|]+\s?")
_BRACKET_OPEN = re.compile(r"[(\[{]+\s*")
_BRACKET_CLOSE = re.compile(r"\s*[)\]}]+")
_EMPTY_PAIR = re.compile(r"\(\s*[^\w()\s]{0,3}\s*\)|\"\"")
_AT = re.compile(r"\s?@\s?(?=\w)")
_POWER = re.compile(r"(?<=[\w)])\^(?=[\w(-])")
_LEFTOVER = re.compile(
    r"[*_`~^\\|#<>=@]+|(?<![A-Za-z0-9])[/%]+|/+(?![A-Za-z0-9])|(?<![A-Za-z+])\++(?!\d)"
)
_STOPS = re.compile(r"[.,;:!?…][ .,;:!?…]*[.,;:!?…](?!\d)")
_ELLIPSIS = re.compile(r"\.{2,}+|…+\.*")
_SPACED_STOP = re.compile(r"[ ]+(?=[,;:!?](?:\s|$)|\.(?:\s|$)|…)")
_LEADING = re.compile(r"(?:^|(?<=\n))[ .,;:!?…—–)-]+(?=\s|[A-Za-z\"'(]|$)(?<![-.]\d)", re.MULTILINE)
_QUOTES = re.compile(r"(['\"])\1+")
_SPACES = re.compile(r"[ \t]{2,}+|\t")
_EMPTY_LINES = re.compile(r" ?\n ?(?:\n ?){2,}+")
_MARK_RUN = re.compile(r"([^A-Za-z0-9\s])\1{3,}+")
_BREAK = re.compile(r"[ \t]*\n\s*")
_HYPHENATED = re.compile(r"(?<=[a-z])-\n[ ]*(?=[a-z])")
_EDGE = re.compile(r"\A\s+|\s+\Z")
_TERMINAL = re.compile(r"[.!?…:;][\"')]*$")


def squeeze(draft: Draft) -> None:
    """Shorten runs of one mark, of spaces and of line feeds; later patterns rely on it.

    A pattern that may begin with white space or a mark is quadratic in the length of such a run.
    """
    draft.sub(_SPACES, " ")
    draft.sub(_EMPTY_LINES, "\n\n")
    draft.sub(_MARK_RUN, lambda m: m.group(1) * 3)


def read_symbols(draft: Draft, notices: Notices) -> None:
    """Say the operators that stand between words; drop what only decorates."""
    text = draft.text
    draft.sub(_EMOTICON, " ", ":;=<^")
    if draft.text is not text:
        notices.add("skipped", "emoji")
    draft.sub(_ARROW, " to ", ">")
    draft.sub(_COMPARISON, _compare, "<>=")
    draft.sub(_TIMES, " times ", "*")
    draft.keep(_SHARP, after=" sharp", marks="#")
    draft.sub(_HASHTAG, " hashtag ", "#")
    draft.sub(_ABOUT, "about ", "~")
    draft.sub(_BACKSLASH, " backslash ", "\\")
    draft.sub(_PERCENT_SPACED, "%", "%")
    draft.sub(_PERCENT_ALONE, " percent ", "%")
    draft.sub(_PLUS, " plus ", "+")
    draft.sub(_AND, _join, "&")
    draft.sub(_POWER, " to the power of ", "^")
    draft.sub(_AT, " at ", "@")
    draft.sub(_SIGN, lambda m: f" {CURRENCIES[m.group()[0]][0]} ", CURRENCIES)


def _compare(match: re.Match[str]) -> str:
    """Words for a comparison that has something on both sides; a lone sign is decoration."""
    text, start, end = match.string, match.start(), match.end()
    left = start > 0 and (text[start - 1].isalnum() or text[start - 1] in ")\"'%")
    right = end < len(text) and (text[end].isalnum() or text[end] in "(\"'-.$")
    return _COMPARED[match.group(1)] if left and right else " "


def _join(match: re.Match[str]) -> str:
    text, start, end = match.string, match.start(), match.end()
    right = end < len(text) and text[end].isalnum()
    return " and " if start > 0 and right else " "


def settle_punctuation(draft: Draft) -> None:
    """Reduce runs, give dashes and brackets one form, leave single spaces and line feeds."""
    squeeze(draft)
    draft.sub(_HYPHENATED, "", ("-\n",))
    draft.sub(_JOIN_DASH, "-", "–")
    draft.sub(_DASH, _dash, ("—", "–", "--", " -"))
    draft.sub(_HYPHEN_END, " ", "-")
    draft.sub(_BULLET, ", ", "•|")
    draft.sub(_LEFTOVER, " ")
    draft.sub(_BRACKET_OPEN, _open_bracket, "([{")
    draft.sub(_BRACKET_CLOSE, ")", ")]}")
    draft.sub(_EMPTY_PAIR, " ", '("')
    draft.sub(_QUOTES, lambda m: m.group(1), ("''", '""'))
    draft.sub(_SPACES, " ")
    draft.sub(_SPACED_STOP, "")
    draft.sub(_STOPS, _strongest)
    draft.sub(_ELLIPSIS, "…", ("..", "…"))
    draft.sub(_LEADING, "")
    draft.sub(_BREAK, _break)
    draft.sub(_SPACES, " ")
    draft.sub(_EDGE, "")


def _dash(match: re.Match[str]) -> str:
    return " — " if match.group().strip(" ") else " "


def _open_bracket(match: re.Match[str]) -> str:
    before = match.string[match.start() - 1 : match.start()]
    return " (" if before.isalnum() else "("


def _strongest(match: re.Match[str]) -> str | None:
    """One stop for a run of them: "?!?!" asks, "!!!" exclaims, ", ." ends."""
    run = match.group()
    if len(run) == 2 and run[0] == "." and run[1] != ".":  # "etc.," and "a.m.?"
        return None
    compact = run.replace(" ", "")
    if set(compact) == {"."}:
        return None if " " not in run else "…"
    for stop in "?!…":
        if stop in compact:
            return stop
    if ".." in compact:
        return "…"
    return "." if "." in compact else compact[0]


def _break(match: re.Match[str]) -> str:
    """A paragraph, a line that stands, or a space where a program wrapped the line."""
    run = match.group()
    if run.count("\n") > 1:
        return "\n\n"
    text = match.string
    line = text[max(text.rfind("\n", 0, match.start()) + 1, match.start() - 200) : match.start()]
    if not line or _TERMINAL.search(line[-4:]):
        return "\n"
    following = text[match.end() : match.end() + 1]
    wrapped = following.islower() or line[-1] == "," or len(line) >= WRAPPED_LINE_CHARS
    return " " if wrapped else "\n"
