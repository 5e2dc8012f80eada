"""Finds the ends of clauses in a text that arrives in pieces."""

from __future__ import annotations

import re

# A mark that has white space behind it: "1,000" and "3:15" have none.
_CLAUSE_END = re.compile(r"[,;:—，；：、][\"')”’]*(?=\s)|[，；：、]")
_SENTENCE_END = re.compile(r"[.!?…][\"')”’]*\s|\n|[。！？]")
# A shorter clause ("Well,") has the intonation of a list and gives a listener half a second.
_MIN_CLAUSE_CHARS = 12
_MAX_MARK_CHARS = 4


class ClauseFinder:
    """Splits pieces behind the clause that ends in them. Linear in the text.

    ``num_settled`` counts the characters that wait for no mark any more: the engine speaks up to
    the last sentence's end by itself, and up to a cut because it is told to.
    """

    def __init__(self) -> None:
        self._num_chars = 0
        self.num_settled = 0
        self._tail = ""

    def feed(self, piece: str, *, cut: bool) -> int | None:
        """Take a piece; where in it a clause ends, if ``cut`` and one does.

        0 is before the piece: its white space shows that a clause had ended.
        """
        window = self._tail + piece
        start = self._num_chars - len(self._tail)
        for match in _SENTENCE_END.finditer(window):
            self.num_settled = max(self.num_settled, start + match.end())
        end = self._clause_end(window, start) if cut else None
        piece_start = self._num_chars
        self._num_chars += len(piece)
        self._tail = window[-_MAX_MARK_CHARS:]
        if end is None:
            return None
        self.num_settled = end
        return max(0, end - piece_start)

    def settle(self) -> None:
        """All of the text so far is being spoken."""
        self.num_settled = self._num_chars

    def _clause_end(self, window: str, start: int) -> int | None:
        """The end of the last clause in the window, as a place in the text."""
        ends = [start + match.end() for match in _CLAUSE_END.finditer(window)]
        if not ends or ends[-1] - self.num_settled < _MIN_CLAUSE_CHARS:
            return None
        return ends[-1]
