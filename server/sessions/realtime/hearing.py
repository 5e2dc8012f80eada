"""The listening half of a realtime session: from appended audio to turns and their words.

    recognition of a turn       begins                          is void when
    on trial                    the speaker pauses              the speaker goes on
    for good                    the turn is committed without   the item is deleted
                                one on trial

A trial whose turn ends in that very pause is the turn's recognition: by then it has had a head
start of the silence that ends a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engine.errors import InvalidRequestError, VoxloomError
from server.sessions.effects import SendEvent
from server.sessions.realtime.config import RealtimeConfig, TurnRules
from server.sessions.realtime.conversation import Conversation
from server.sessions.realtime.effects import (
    Effect,
    ForgetRecognition,
    Listen,
    ListenAnew,
    Recognise,
)
from server.sessions.realtime.input_audio import Clip, InputAudio
from server.sessions.realtime.items import Item
from server.sessions.realtime.turns import (
    WINDOW_MS,
    Paused,
    Resumed,
    SpeechStarted,
    SpeechStopped,
    TurnDetector,
)

# What an uncommitted buffer may hold; a turn that gets as long ends there.
MAX_BUFFER_MS = 10 * 60 * 1000
# Shorter audio holds no word, and OpenAI refuses it.
_MIN_COMMIT_MS = 100


class TurnListener(Protocol):
    """Whom turns matter to."""

    def on_speech(self, now: float) -> list[Effect]:
        """Somebody has begun to speak."""
        ...

    def on_turn(self, item: Item) -> list[Effect]:
        """A turn that was found in the audio is in the conversation; its words may follow."""
        ...

    def on_words(self, item: Item, now: float) -> list[Effect]:
        """What an item says is known now, or that it cannot be."""
        ...


@dataclass(slots=True)
class _Attempt:
    """A recognition under way. ``text`` and ``error`` are kept until its turn is committed."""

    number: int
    deltas: list[str] = field(default_factory=list)
    text: str | None = None
    error: VoxloomError | None = None

    @property
    def is_over(self) -> bool:
        return self.text is not None or self.error is not None


class Hearing:
    """One session's audio input. ``take_*`` are answers to effects; late ones are dropped."""

    def __init__(
        self,
        config: RealtimeConfig,
        conversation: Conversation,
        listener: TurnListener,
        new_item_id: Callable[[], str],
    ) -> None:
        self._config = config
        self._conversation = conversation
        self._listener = listener
        self._new_item_id = new_item_id
        self._audio = InputAudio(config.input_format.rate, MAX_BUFFER_MS)
        self._detector = TurnDetector()
        self._turn: tuple[str, int] | None = None
        self._attempts: dict[str, _Attempt] = {}
        self._num_attempts = 0
        self._waiting: dict[str, Item] = {}
        self._epoch = 0

    @property
    def is_speaking(self) -> bool:
        return self._turn is not None

    @property
    def end_ms(self) -> int:
        return self._audio.end_ms

    # --- audio -----------------------------------------------------------------------------------

    def append(self, pcm: bytes) -> list[Effect]:
        """More audio, s16le at the input format's rate."""
        rules = self._config.turn_rules
        if rules is None and self._audio.held_ms + len(pcm) * 500 / self._audio.rate > (
            MAX_BUFFER_MS
        ):
            raise InvalidRequestError(
                f"The input audio buffer holds at most {MAX_BUFFER_MS // 1000} s; commit or clear "
                "it.",
                param="audio",
                code="input_audio_buffer_full",
            )
        self._audio.append(pcm)
        return [] if rules is None else [Listen(pcm, self._audio.rate)]

    def clear(self) -> list[Effect]:
        """Drop what is not committed, a turn that is being spoken too."""
        effects = self._drop_turn()
        self._audio.clear()
        return [*effects, *self._listen_anew(), _send("input_audio_buffer.cleared")]

    def commit(self, now: float) -> list[Effect]:
        """Make what is held a turn, on the client's word."""
        held_ms = self._audio.held_ms
        if held_ms < _MIN_COMMIT_MS:
            raise InvalidRequestError(
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{_MIN_COMMIT_MS}ms of audio, but buffer only has {held_ms:.2f}ms of audio.",
                code="input_audio_buffer_commit_empty",
            )
        item_id, start_ms = self._turn or (self._new_item_id(), self._audio.start_ms)
        self._turn = None
        effects = self._forget_attempt(item_id)
        effects += self._commit(item_id, start_ms, self._audio.end_ms, now)
        return [*effects, *self._listen_anew()]

    def change_format(self) -> None:
        """The input format was changed. Raises if audio in the old one waits for its commit."""
        rate = self._config.input_format.rate
        if rate == self._audio.rate:
            return
        if self._turn is not None:
            raise InvalidRequestError(
                "The input format cannot change while speech is being taken in.",
                param="session.audio.input.format",
            )
        self._audio.change_rate(rate)

    def change_rules(self, before: TurnRules | None) -> list[Effect]:
        """Turn detection was switched on or off, or is as before with other numbers."""
        if (before is None) == (self._config.turn_rules is None):
            return []
        return [*self._drop_turn(), *self._listen_anew()]

    # --- turns -----------------------------------------------------------------------------------

    def take_probabilities(self, epoch: int, values: Sequence[float], now: float) -> list[Effect]:
        """Speech probabilities of the next windows. ``epoch`` counts ``ListenAnew``."""
        effects: list[Effect] = []
        for value in values:
            rules = self._config.turn_rules
            if epoch != self._epoch or rules is None:
                break
            effects += self._take_window(value, rules, now)
        return effects

    def _take_window(self, value: float, rules: TurnRules, now: float) -> list[Effect]:
        match self._detector.feed(value, rules):
            case SpeechStarted(start_ms):
                return self._start_turn(start_ms, now)
            case Paused():
                return self._try_recognition()
            case Resumed():
                assert self._turn is not None
                return self._forget_attempt(self._turn[0])
            case SpeechStopped(end_ms):
                return self._stop_turn(end_ms, now)
        if self._turn is not None:
            too_long = self._detector.next_ms - self._turn[1] >= MAX_BUFFER_MS - WINDOW_MS
            return self._stop_turn(self._detector.next_ms, now) if too_long else []
        self._audio.drop_before(self._detector.quiet_until - rules.prefix_padding_ms)
        return []

    def _start_turn(self, start_ms: int, now: float) -> list[Effect]:
        self._turn = (self._new_item_id(), start_ms)
        event = _send(
            "input_audio_buffer.speech_started", item_id=self._turn[0], audio_start_ms=start_ms
        )
        return [event, *self._listener.on_speech(now)]

    def _stop_turn(self, end_ms: int, now: float) -> list[Effect]:
        assert self._turn is not None
        item_id, start_ms = self._turn
        self._turn = None
        self._detector.reset(end_ms)
        stopped = _send("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=end_ms)
        return [stopped, *self._commit(item_id, start_ms, end_ms, now, is_found=True)]

    def _commit(
        self, item_id: str, start_ms: int, end_ms: int, now: float, *, is_found: bool = False
    ) -> list[Effect]:
        clip = self._audio.clip(start_ms, end_ms)
        self._audio.drop_before(end_ms)
        item = Item(item_id, "message", "user", clip=clip, awaits_transcript=True)
        item.parts = [{"type": "input_audio", "transcript": None}]
        effects = self.add_turn(item)
        if is_found:
            effects += self._listener.on_turn(item)
        return [*effects, *self.recognise(item, now)]

    def add_turn(self, item: Item) -> list[Effect]:
        """Put a turn into the conversation and say so."""
        before = self._conversation.last_id
        self._conversation.insert(item)
        return [
            _send("input_audio_buffer.committed", item_id=item.id, previous_item_id=before),
            *item_events(item, before),
        ]

    def _drop_turn(self) -> list[Effect]:
        turn, self._turn = self._turn, None
        return [] if turn is None else self._forget_attempt(turn[0])

    def _listen_anew(self) -> list[Effect]:
        """Windows on the way belong to audio that is done with."""
        self._epoch += 1
        self._detector.skip_to(self._audio.end_ms)
        return [ListenAnew()]

    # --- words -----------------------------------------------------------------------------------

    def recognise(self, item: Item, now: float) -> list[Effect]:
        """Find out what an item with audio says; a trial of this very turn is taken up."""
        assert item.clip is not None
        self._waiting[item.id] = item
        attempt = self._attempts.get(item.id)
        if attempt is None:
            return [self._begin_attempt(item.id, item.clip)]
        effects = [self._delta(item, delta) for delta in attempt.deltas if self._is_shown]
        return effects + (self._settle(item, attempt, now) if attempt.is_over else [])

    def forget(self, item_id: str) -> list[Effect]:
        """An item is gone: nobody waits for its words."""
        self._waiting.pop(item_id, None)
        return self._forget_attempt(item_id)

    def take_transcript_delta(self, item_id: str, attempt: int, delta: str) -> list[Effect]:
        current = self._current(item_id, attempt)
        item = self._waiting.get(item_id)
        if current is None or not delta:
            return []
        if item is None:
            current.deltas.append(delta)
            return []
        return [self._delta(item, delta)] if self._is_shown else []

    def take_transcript(self, item_id: str, attempt: int, text: str, now: float) -> list[Effect]:
        """The words of a turn, all of them."""
        return self._take_result(item_id, attempt, text, None, now)

    def take_transcript_failure(
        self, item_id: str, attempt: int, error: VoxloomError, now: float
    ) -> list[Effect]:
        return self._take_result(item_id, attempt, None, error, now)

    def _take_result(
        self, item_id: str, number: int, text: str | None, error: VoxloomError | None, now: float
    ) -> list[Effect]:
        attempt = self._current(item_id, number)
        if attempt is None:
            return []
        attempt.text, attempt.error = text, error
        item = self._waiting.get(item_id)
        return [] if item is None else self._settle(item, attempt, now)

    def _settle(self, item: Item, attempt: _Attempt, now: float) -> list[Effect]:
        del self._attempts[item.id], self._waiting[item.id]
        item.awaits_transcript = False
        for part in item.parts:
            if part["type"] == "input_audio":
                part["transcript"] = attempt.text
        effects = [self._outcome(item, attempt)] if self._is_shown else []
        return [*effects, *self._listener.on_words(item, now)]

    def _outcome(self, item: Item, attempt: _Attempt) -> SendEvent:
        base = "conversation.item.input_audio_transcription"
        place = {"item_id": item.id, "content_index": 0}
        if attempt.error is not None:
            error = {
                "type": "transcription_error",
                "code": attempt.error.code,
                "message": attempt.error.message,
            }
            return _send(f"{base}.failed", **place, error=error)
        assert item.clip is not None
        usage = {"type": "duration", "seconds": round(item.clip.duration_ms / 1000, 3)}
        return _send(f"{base}.completed", **place, transcript=attempt.text, usage=usage)

    def _delta(self, item: Item, delta: str) -> SendEvent:
        kind = "conversation.item.input_audio_transcription.delta"
        return _send(kind, item_id=item.id, content_index=0, delta=delta)

    @property
    def _is_shown(self) -> bool:
        return self._config.transcription is not None

    def _try_recognition(self) -> list[Effect]:
        assert self._turn is not None
        item_id, start_ms = self._turn
        return [self._begin_attempt(item_id, self._audio.clip(start_ms, self._detector.next_ms))]

    def _begin_attempt(self, item_id: str, clip: Clip) -> Recognise:
        self._num_attempts += 1
        self._attempts[item_id] = _Attempt(self._num_attempts)
        options = self._config.transcription or {}
        return Recognise(
            item_id,
            self._num_attempts,
            clip,
            options.get("language"),
            options.get("prompt"),
        )

    def _forget_attempt(self, item_id: str) -> list[Effect]:
        attempt = self._attempts.pop(item_id, None)
        if attempt is None or attempt.is_over:
            return []
        return [ForgetRecognition(item_id, attempt.number)]

    def _current(self, item_id: str, number: int) -> _Attempt | None:
        attempt = self._attempts.get(item_id)
        return attempt if attempt is not None and attempt.number == number else None


def item_events(item: Item, before: str | None) -> list[Effect]:
    """An item is in the conversation, whole."""
    return [
        _send("conversation.item.added", item=item.to_json(), previous_item_id=before),
        _send("conversation.item.done", item=item.to_json(), previous_item_id=before),
    ]


def _send(kind: str, **fields: Any) -> SendEvent:
    return SendEvent({"type": kind, **fields})
