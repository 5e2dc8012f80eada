"""What of a model's answer is read aloud: not its reasoning, nor the code that it quotes.

The text comes in pieces of any size; what is read of it comes out as soon as it is certain. Marks
that nobody would say (emphasis, headings, links, emoji) are the speech model's business, which
knows how they sound; here whole blocks are left out.

    state      leads to   at
    TEXT       REASONING  <think>, <thinking> or <reasoning>
    TEXT       TEXT       a closing tag of these that nothing opened: it is not read itself
    TEXT       CODE       a line that begins with three backticks or tildes
    REASONING  TEXT       the closing tag of the kind that opened it
    CODE       TEXT       the end of a line that holds the fence which opened it
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

REASONING_TAGS = tuple(f"<{name}>" for name in ("think", "thinking", "reasoning"))
# What belongs before an answer that begins inside its reasoning: so the two can be told apart.
OPENING = f"{REASONING_TAGS[0]}\n"
_STRAY_TAGS = tuple(f"</{tag[1:]}" for tag in REASONING_TAGS)
# As in CommonMark: up to three spaces before a fence of at least three marks.
_FENCE = re.compile(r" {0,3}(```+|~~~+)[^`~]")
_FENCE_BEGINNING = re.compile(r" {0,3}(`*|~*)")
# A line of code is looked at no further: a fence is shorter.
_MAX_LINE_CHARS = 256


class State(Enum):
    TEXT = auto()
    REASONING = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Piece:
    """Text to be read, at ``offset`` of the answer. ``breaks``: a sentence ends before it.

    Something was left out there, and what comes behind does not go on with what came before.
    """

    text: str
    offset: int
    breaks: bool = False


class SpokenText:
    """One answer."""

    def __init__(self) -> None:
        self._state = State.TEXT
        self._held = ""  # what may be the beginning of a block, or of a block's end
        self._closing = ""
        self._is_line_start = True
        self._num_chars = 0
        self._read: list[str] = []
        self._read_from = 0
        self._has_gap = False
        self._pieces: list[Piece] = []

    def feed(self, text: str) -> list[Piece]:
        """More of the answer; what of it is certain to be read."""
        for char in text:
            self._num_chars += 1
            if self._state is State.TEXT:
                self._take(char)
            elif self._state is State.REASONING:
                self._skip_reasoning(char)
            else:
                self._skip_code(char)
        return self._emit()

    def finish(self) -> list[Piece]:
        """The answer is whole. A block that was never closed is not read."""
        if self._state is State.TEXT:
            while self._held:
                self._release()
        return self._emit()

    def _take(self, char: str) -> None:
        self._held += char
        while self._held and not self._may_open():
            self._release()
        if self._held in REASONING_TAGS:
            self._open(State.REASONING, f"</{self._held[1:]}")
        elif self._held in _STRAY_TAGS:
            self._end_piece()
            self._close()
        elif self._is_line_start and (fence := _FENCE.fullmatch(self._held)):
            self._open(State.CODE, fence[1])
            self._held = "" if char == "\n" else char

    def _may_open(self) -> bool:
        if any(tag.startswith(self._held) for tag in (*REASONING_TAGS, *_STRAY_TAGS)):
            return True
        if not self._is_line_start:
            return False
        pattern = _FENCE_BEGINNING.fullmatch(self._held) or _FENCE.fullmatch(self._held)
        return pattern is not None

    def _release(self) -> None:
        """The first character that is held is text after all."""
        if not self._read:
            self._read_from = self._num_chars - len(self._held)
        self._read.append(self._held[0])
        self._is_line_start = self._held[0] == "\n"
        self._held = self._held[1:]

    def _open(self, state: State, closing: str) -> None:
        self._end_piece()
        self._state, self._closing, self._held = state, closing, ""

    def _skip_reasoning(self, char: str) -> None:
        self._held = (self._held + char)[-len(self._closing) :]
        if self._held == self._closing:
            self._close()

    def _skip_code(self, char: str) -> None:
        if char != "\n":
            self._held = (self._held + char)[:_MAX_LINE_CHARS]
            return
        line, self._held = self._held.strip(), ""
        if line.startswith(self._closing) and not line.strip(self._closing[0]):
            self._close()

    def _close(self) -> None:
        self._state, self._held = State.TEXT, ""
        self._has_gap = self._is_line_start = True

    def _end_piece(self) -> None:
        if self._read:
            self._pieces.append(Piece("".join(self._read), self._read_from, self._has_gap))
            self._read, self._has_gap = [], False

    def _emit(self) -> list[Piece]:
        self._end_piece()
        pieces, self._pieces = self._pieces, []
        return pieces
