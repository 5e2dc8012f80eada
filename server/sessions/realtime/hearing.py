"""The listening half of a realtime session: from appended audio to turns and their words.

Turns are found, and recognised, by the engine, in a live stream of the session's audio; it writes a
turn down on trial in the pause that may end it. What a client commits itself is recognised as a
recording.

A model that hears is given the turns themselves. They are written down, as recordings, where the
client wants to see what they say; no answer waits for that.

    live stream   leads to    when
    (none)        OPEN        audio comes, and the session detects turns
    OPEN          (none)      detection is switched off, the client commits or clears, it broke

Each stream has an epoch; what comes of an earlier one is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from engine.errors import InvalidRequestError, OverloadedError, RequestError, VoxloomError
from server.sessions.effects import SendEvent
from server.sessions.realtime.config import RealtimeConfig, TurnRules
from server.sessions.realtime.conversation import Conversation
from server.sessions.realtime.effects import (
    ChangeListening,
    Effect,
    ForgetRecognition,
    Hints,
    Listen,
    ListeningOptions,
    Recognise,
    StartListening,
    StopListening,
)
from server.sessions.realtime.input_audio import InputAudio
from server.sessions.realtime.items import Item

# What an uncommitted buffer may hold.
MAX_BUFFER_MS = 10 * 60 * 1000
# The engine looks at audio some frames behind what has come.
_KEPT_MS = 2000
# A stream that broke is opened again after this: what broke it may take a while to mend.
_RETRY_S = 1.0
# Shorter audio holds no word, and OpenAI refuses it.
_MIN_COMMIT_MS = 100
# Each is a request of the engine: a session's share of them.
_MAX_RECORDINGS = 16


class TurnListener(Protocol):
    """Whom turns matter to."""

    def on_speech(self, now: float) -> list[Effect]:
        """Somebody has begun to speak."""
        ...

    def on_turn(self, item: Item, now: float) -> list[Effect]:
        """A turn that was found in the audio is in the conversation; its words may follow."""
        ...

    def on_words(self, item: Item, now: float) -> list[Effect]:
        """What an item says is known now, or that it cannot be."""
        ...


class Hearing:
    """One session's audio input. ``take_*`` are the engine's news; late ones are dropped."""

    def __init__(
        self,
        config: RealtimeConfig,
        conversation: Conversation,
        listener: TurnListener,
        new_item_id: Callable[[], str],
        *,
        model_hears: bool = False,
    ) -> None:
        self.model_hears = model_hears
        self._config = config
        self._conversation = conversation
        self._listener = listener
        self._new_item_id = new_item_id
        self._audio = InputAudio(config.input_format.rate, MAX_BUFFER_MS)
        self._epoch = 0
        self._is_open = False
        self._resume_at = 0.0
        self._turn: tuple[str, int] | None = None
        # Turns of the live stream whose words are not known, by where they begin.
        self._live: dict[tuple[int, int], Item] = {}
        # A failure is told once, until something has been heard again.
        self._has_told_failure = False
        # Items whose audio is recognised by itself.
        self._recordings: dict[str, Item] = {}

    @property
    def is_speaking(self) -> bool:
        return self._turn is not None

    @property
    def end_ms(self) -> int:
        return self._audio.end_ms

    # --- audio -----------------------------------------------------------------------------------

    def append(self, pcm: bytes, now: float) -> list[Effect]:
        """More audio, s16le at the input format's rate."""
        rules = self._config.turn_rules
        start_ms = self._audio.end_ms
        if rules is None:
            self._check_room(len(pcm))
        self._audio.append(pcm)
        if rules is None:
            return []
        effects: list[Effect] = []
        if not self._is_open and now < self._resume_at:
            return []
        if not self._is_open:
            self._is_open = True
            self._epoch += 1
            effects.append(StartListening(self._epoch, start_ms, self._options(rules)))
        if self._turn is None:
            self._audio.drop_before(self._audio.end_ms - rules.prefix_padding_ms - _KEPT_MS)
        return [*effects, Listen(pcm, self._audio.rate)]

    def clear(self) -> list[Effect]:
        """Drop what is not committed, a turn that is being spoken too."""
        self._turn = None
        self._audio.clear()
        return [*self._stop_listening(), _send("input_audio_buffer.cleared")]

    def commit(self, now: float) -> list[Effect]:
        """Make what is held a turn, on the client's word."""
        held_ms = self._audio.held_ms
        if held_ms < _MIN_COMMIT_MS:
            raise InvalidRequestError(
                "Error committing input audio buffer: buffer too small. Expected at least "
                f"{_MIN_COMMIT_MS}ms of audio, but buffer only has {held_ms:.2f}ms of audio.",
                code="input_audio_buffer_commit_empty",
            )
        if self._writes_down:
            self.check_recordings([])
        item_id, start_ms = self._turn or (self._new_item_id(), self._audio.start_ms)
        self._turn = None
        effects = self._stop_listening()
        item = self._make_turn(item_id, start_ms, self._audio.end_ms)
        return [*effects, *self.add_turn(item), *self._write_down(item)]

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

    def change_options(self) -> list[Effect]:
        """How turns are found, or what is known of their language, may have changed."""
        rules = self._config.turn_rules
        # What may go well now, or fail for another reason, is worth telling again.
        self._has_told_failure = False
        if rules is None:
            self._turn = None
            return self._stop_listening()
        return [ChangeListening(self._options(rules))] if self._is_open else []

    # --- the live stream -------------------------------------------------------------------------

    def take_speech_started(self, epoch: int, start_ms: int, now: float) -> list[Effect]:
        """A turn has begun; its audio, padding included, starts at ``start_ms``."""
        if epoch != self._epoch or not self._is_open:
            return []
        self._turn = (self._new_item_id(), start_ms)
        event = _send(
            "input_audio_buffer.speech_started", item_id=self._turn[0], audio_start_ms=start_ms
        )
        return [event, *self._listener.on_speech(now)]

    def take_speech_stopped(self, epoch: int, end_ms: int, now: float) -> list[Effect]:
        """The turn is over; its audio ends at ``end_ms``, the silence included."""
        if epoch != self._epoch or self._turn is None:
            return []
        item_id, start_ms = self._turn
        self._turn = None
        item = self._make_turn(item_id, start_ms, end_ms)
        stopped = _send("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=end_ms)
        effects = [stopped, *self.add_turn(item), *self._listener.on_turn(item, now)]
        if self.model_hears:
            return [*effects, *self._write_down(item)]
        self._live[self._epoch, start_ms] = item
        return effects

    def take_live_words(self, epoch: int, start_ms: int, words: str, now: float) -> list[Effect]:
        """What was said in the turn that starts at ``start_ms``."""
        self._has_told_failure = False
        item = self._live.pop((epoch, start_ms), None)
        return [] if item is None else self._settle(item, words, None, now)

    def take_listening_failure(self, epoch: int, error: VoxloomError, now: float) -> list[Effect]:
        """A live stream broke: its turns will have no words; the next audio opens another."""
        effects: list[Effect] = []
        if epoch == self._epoch and self._is_open:
            self._is_open = False
            self._resume_at = now + _RETRY_S
            if self._turn is not None:
                effects += self._abandon_turn()
            if not self._has_told_failure:
                self._has_told_failure = True
                is_clients = isinstance(error, RequestError)
                kind = "invalid_request_error" if is_clients else "server_error"
                details = {"type": kind, "code": error.code, "message": error.message}
                place = {"param": error.param, "event_id": None}
                effects.append(_send("error", error=details | place))
        for key in [key for key in self._live if key[0] == epoch]:
            effects += self._settle(self._live.pop(key), None, error, now)
        return effects

    def _abandon_turn(self) -> list[Effect]:
        """A turn of which no more will be heard; its item was never made."""
        assert self._turn is not None
        (item_id, _), self._turn = self._turn, None
        end_ms = self._audio.end_ms
        return [_send("input_audio_buffer.speech_stopped", item_id=item_id, audio_end_ms=end_ms)]

    # --- recordings ------------------------------------------------------------------------------

    def admit(self, items: list[Item]) -> list[Item]:
        """Those of a client's own items that must be recognised.

        Raises ``VoxloomError`` if they could not all be now.
        """
        for item in items:
            item.awaits_transcript &= not self.model_hears
        unwritten = [item for item in items if item.awaits_transcript]
        self.check_recordings(unwritten)
        return unwritten

    def check_recordings(self, items: list[Item]) -> None:
        """Raise ``VoxloomError`` if these items could not all be recognised now."""
        ids = [*self._recordings, *(item.id for item in items)]
        for item in items:
            if ids.count(item.id) > 1 or self._conversation.find(item.id) is not None:
                raise InvalidRequestError(
                    f"Error adding item: an item with id '{item.id}' already exists.",
                    param="item.id",
                    code="item_create_duplicate_item_id",
                )
        if len(ids) > _MAX_RECORDINGS:
            raise OverloadedError(
                f"{len(self._recordings)} recordings of this session are being written down; "
                f"{_MAX_RECORDINGS} may.",
                retry_after_s=1.0,
            )

    def recognise(self, item: Item) -> list[Effect]:
        """Find out what an item with audio says."""
        assert item.clip is not None
        self._recordings[item.id] = item
        return [Recognise(item.id, item.clip, self._hints())]

    def take_words_delta(self, item_id: str, delta: str) -> list[Effect]:
        item = self._recordings.get(item_id)
        return [self._delta(item, delta)] if item is not None and delta and self._is_shown else []

    def take_words(self, item_id: str, words: str, now: float) -> list[Effect]:
        """All that an item says."""
        item = self._recordings.pop(item_id, None)
        return [] if item is None else self._settle(item, words, None, now, has_deltas=True)

    def take_words_failure(self, item_id: str, error: VoxloomError, now: float) -> list[Effect]:
        item = self._recordings.pop(item_id, None)
        return [] if item is None else self._settle(item, None, error, now)

    def forget(self, item_id: str) -> list[Effect]:
        """An item is gone: nobody waits for its words."""
        self._live = {key: item for key, item in self._live.items() if item.id != item_id}
        return [] if self._recordings.pop(item_id, None) is None else [ForgetRecognition(item_id)]

    def end(self) -> list[Effect]:
        """Let go of everything."""
        forgotten = [ForgetRecognition(item_id) for item_id in self._recordings]
        self._recordings.clear()
        return [*self._stop_listening(), *forgotten]

    # --- small things ----------------------------------------------------------------------------

    def add_turn(self, item: Item) -> list[Effect]:
        """Put a turn into the conversation and say so."""
        before = self._conversation.last_id
        self._conversation.insert(item)
        return [
            _send("input_audio_buffer.committed", item_id=item.id, previous_item_id=before),
            *item_events(item, before),
        ]

    def _make_turn(self, item_id: str, start_ms: int, end_ms: int) -> Item:
        clip = self._audio.clip(start_ms, end_ms)
        self._audio.drop_before(end_ms)
        item = Item(item_id, "message", "user", clip=clip)
        item.awaits_transcript = not self.model_hears
        item.parts = [{"type": "input_audio", "transcript": None}]
        return item

    def _write_down(self, item: Item) -> list[Effect]:
        """Have a turn recognised, if anybody waits for its words and there is room."""
        if not self._writes_down:
            return []
        if len(self._recordings) < _MAX_RECORDINGS:
            return self.recognise(item)
        error = OverloadedError(
            f"{_MAX_RECORDINGS} turns wait to be written down already", retry_after_s=1.0
        )
        return [_outcome(item, None, error)]

    def _stop_listening(self) -> list[Effect]:
        """Turns that are over are still written down; audio of none is heard any more."""
        if not self._is_open:
            return []
        self._is_open = False
        return [StopListening(self._epoch)]

    def _settle(
        self,
        item: Item,
        words: str | None,
        error: VoxloomError | None,
        now: float,
        *,
        has_deltas: bool = False,
    ) -> list[Effect]:
        item.awaits_transcript = False
        for part in item.parts:
            if part["type"] == "input_audio":
                part["transcript"] = words
        effects: list[Effect] = []
        if self._is_shown:
            if words and not has_deltas:
                effects.append(self._delta(item, words))
            effects.append(_outcome(item, words, error))
        return [*effects, *self._listener.on_words(item, now)]

    def _delta(self, item: Item, delta: str) -> SendEvent:
        kind = "conversation.item.input_audio_transcription.delta"
        return _send(kind, item_id=item.id, content_index=0, delta=delta)

    def _options(self, rules: TurnRules) -> ListeningOptions:
        return ListeningOptions(rules, self._hints())

    def _hints(self) -> Hints:
        options = self._config.transcription or {}
        return Hints(**{key: options.get(key) for key in Hints.__dataclass_fields__})

    @property
    def _writes_down(self) -> bool:
        return self._is_shown or not self.model_hears

    @property
    def _is_shown(self) -> bool:
        return self._config.transcription is not None

    def _check_room(self, num_bytes: int) -> None:
        if self._audio.held_ms + num_bytes * 500 / self._audio.rate > MAX_BUFFER_MS:
            raise InvalidRequestError(
                f"The input audio buffer holds at most {MAX_BUFFER_MS // 1000} s; commit or clear "
                "it.",
                param="audio",
                code="input_audio_buffer_full",
            )


def item_events(item: Item, before: str | None) -> list[Effect]:
    """An item is in the conversation, whole."""
    return [
        _send("conversation.item.added", item=item.to_json(), previous_item_id=before),
        _send("conversation.item.done", item=item.to_json(), previous_item_id=before),
    ]


def _outcome(item: Item, words: str | None, error: VoxloomError | None) -> SendEvent:
    base = "conversation.item.input_audio_transcription"
    place = {"item_id": item.id, "content_index": 0}
    if error is not None:
        details = {"type": "transcription_error", "code": error.code, "message": error.message}
        return _send(f"{base}.failed", **place, error=details)
    seconds = 0.0 if item.clip is None else item.clip.duration_ms / 1000
    usage = {"type": "duration", "seconds": round(seconds, 3)}
    return _send(f"{base}.completed", **place, transcript=words, usage=usage)


def _send(kind: str, **fields: Any) -> SendEvent:
    return SendEvent({"type": kind, **fields})
