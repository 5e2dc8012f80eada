"""Which words of a text became which words of its rewriting."""

from difflib import SequenceMatcher

# Beyond this many words on a side the matcher's worst case (quadratic) is not worth it.
_MAX_MATCHED_WORDS = 200


def align_words(before: list[str], after: list[str]) -> list[tuple[int, int]]:
    """For each word of `after`, the range `[first, last)` of words of `before` it stands for.

    Ranges never decrease. Changed stretches of equal length pair up word by word; in others every
    new word stands for the whole old stretch.
    """
    if before == after:
        return [(i, i + 1) for i in range(len(after))]
    if not before:
        return [(0, 0)] * len(after)
    ranges: list[tuple[int, int]] = []
    for tag, i1, i2, j1, j2 in _changes(before, after):
        if i2 - i1 == j2 - j1:
            ranges += [(i, i + 1) for i in range(i1, i2)]
        elif tag == "insert":  # belongs to the word before it
            at = max(i1, 1)
            ranges += [(at - 1, at)] * (j2 - j1)
        else:
            ranges += [(i1, i2)] * (j2 - j1)
    return ranges


def _changes(before: list[str], after: list[str]) -> list[tuple[str, int, int, int, int]]:
    if max(len(before), len(after)) > _MAX_MATCHED_WORDS:
        return [("replace", 0, len(before), 0, len(after))]
    return list(SequenceMatcher(None, before, after, autojunk=False).get_opcodes())
