"""Finds turns in a stream of speech probabilities. No audio, no model, no clock of its own.

Probabilities come one for each window of ``WINDOW_MS`` of the session's audio, in order.

    state      window is                                   leads to   event
    QUIET      voiced, for ``_MIN_SPEECH_MS``              SPEAKING   SpeechStarted
    SPEAKING   unvoiced, for ``_PAUSE_MS``                 PAUSING    Paused
    PAUSING    voiced                                      SPEAKING   Resumed
    PAUSING    unvoiced, for ``silence_duration_ms``       QUIET      SpeechStopped

A turn that has begun goes on down to a lower threshold than the one it began at, so that a soft
syllable does not end it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from server.sessions.realtime.config import TurnRules

# Silero's window: 512 samples at 16 kHz.
WINDOW_MS = 32
# One loud window is a click; two are a voice.
_MIN_SPEECH_MS = 2 * WINDOW_MS
# A pause as long as this ends a turn often enough for recognition to start on trial.
_PAUSE_MS = 3 * WINDOW_MS
# Silero's own distance between the thresholds that begin and end speech.
_HYSTERESIS = 0.15


class State(Enum):
    QUIET = auto()
    SPEAKING = auto()
    PAUSING = auto()


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """``start_ms`` is where the turn's audio begins, padding included."""

    start_ms: int


@dataclass(frozen=True, slots=True)
class Paused:
    """The speaker is silent for the moment; speech went up to ``end_ms``."""

    end_ms: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The speaker goes on."""


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """The turn is over; its audio ends at ``end_ms``, the silence included."""

    end_ms: int


TurnEvent: TypeAlias = SpeechStarted | Paused | Resumed | SpeechStopped


class TurnDetector:
    """The turns of one session. All times count from the session's start."""

    def __init__(self) -> None:
        self._state = State.QUIET
        self._next_ms = 0
        self._voiced_from: int | None = None
        self._speech_end = 0
        self._floor_ms = 0

    @property
    def is_speaking(self) -> bool:
        return self._state is not State.QUIET

    @property
    def next_ms(self) -> int:
        """Where the next window begins."""
        return self._next_ms

    @property
    def quiet_until(self) -> int:
        """Up to where no turn can begin any more, but for its padding."""
        return self._next_ms if self._voiced_from is None else self._voiced_from

    def reset(self, at_ms: int) -> None:
        """Forget the turn; audio before ``at_ms`` belongs to no later one."""
        self._state = State.QUIET
        self._voiced_from = None
        self._floor_ms = at_ms

    def skip_to(self, at_ms: int) -> None:
        """The next window begins at ``at_ms``: what came before was not looked at."""
        self.reset(at_ms)
        self._next_ms = at_ms

    def feed(self, probability: float, rules: TurnRules) -> TurnEvent | None:
        """One more window; what it changes."""
        start_ms, self._next_ms = self._next_ms, self._next_ms + WINDOW_MS
        if self._state is State.QUIET:
            return self._while_quiet(start_ms, probability >= rules.threshold, rules)
        is_voiced = probability >= max(rules.threshold - _HYSTERESIS, 0.01)
        return self._while_turn(is_voiced, rules)

    def _while_quiet(self, start_ms: int, is_voiced: bool, rules: TurnRules) -> TurnEvent | None:
        if not is_voiced:
            self._voiced_from = None
            return None
        if self._voiced_from is None:
            self._voiced_from = start_ms
        if self._next_ms - self._voiced_from < _MIN_SPEECH_MS:
            return None
        begin_ms = max(self._voiced_from - rules.prefix_padding_ms, self._floor_ms, 0)
        self._state, self._voiced_from = State.SPEAKING, None
        self._speech_end = self._next_ms
        return SpeechStarted(begin_ms)

    def _while_turn(self, is_voiced: bool, rules: TurnRules) -> TurnEvent | None:
        if is_voiced:
            was, self._state = self._state, State.SPEAKING
            self._speech_end = self._next_ms
            return Resumed() if was is State.PAUSING else None
        silence_ms = self._next_ms - self._speech_end
        if silence_ms >= rules.silence_duration_ms:
            self.reset(self._next_ms)
            return SpeechStopped(self._next_ms)
        if self._state is State.SPEAKING and silence_ms >= _PAUSE_MS:
            self._state = State.PAUSING
            return Paused(self._speech_end)
        return None
