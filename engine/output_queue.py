"""The outputs of one request on their way from the orchestrator's thread to its caller."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from engine.buffering import StageReports
from engine.messages import AckMessage, ErrorMessage, OutputMessage, ToCaller, output_size
from engine.wake_ups import WakeUps

# First and last sample of a word in the request's audio, first and last character in its text.
Word: TypeAlias = Sequence[int]

# Words remembered to tell how far a listener has heard: half an hour of speech, more than a
# player ever lags behind.
_MAX_WORDS = 5000


class OutputQueue:
    """Many puts from the orchestrator's thread, one reader on any event loop.

    What may wait here is bounded by the credit of the stages (``max_buffered_audio_s``), which
    grows with what ``report_consumed`` tells: a stage, and how much of its output was taken in all.
    It is called each time that went on by the stage's ``report_every``. What the reader has taken
    counts as sent; the answer to an interrupt drops what it has not.
    """

    def __init__(
        self,
        sample_rate: int,
        stages: Mapping[int, StageReports],
        report_consumed: Callable[[int, int], None],
    ) -> None:
        self._messages: deque[ToCaller] = deque()
        self._lock = threading.Lock()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._sample_rate = sample_rate
        self._stages = stages
        self._report_consumed = report_consumed
        self._num_consumed = 0
        self._num_taken = dict.fromkeys(stages, 0)
        self._num_reported = dict.fromkeys(stages, 0)
        self._words: deque[Word] = deque(maxlen=_MAX_WORDS)

    def put(self, message: ToCaller, wake_ups: WakeUps) -> None:
        """Add a message; whoever waits for it is told with ``wake_ups``.

        Called on the orchestrator's thread.
        """
        with self._lock:
            if isinstance(message, AckMessage) and message.kind == "interrupt":
                self._cut(message)
            if self._messages and is_terminal(self._messages[-1]):
                self._messages.insert(len(self._messages) - 1, message)  # nothing is read behind it
            else:
                self._messages.append(message)
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            wake_ups.add(*waiter)

    async def get(self) -> ToCaller:
        """The next message; waits for it. Only one reader at a time."""
        while True:
            with self._lock:
                if self._messages:
                    message = self._messages.popleft()
                    report = self._count(message)
                    break
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiter = (loop, future)
            await future
        if report is not None:
            self._report_consumed(*report)
        return message

    def _count(self, message: ToCaller) -> tuple[int, int] | None:
        """Note what the reader took; how much to report, when that is due."""
        if not isinstance(message, OutputMessage):
            return None
        if message.payload is not None and "audio" in message.payload:
            self._num_consumed += message.num_samples
            self._words.extend(message.payload.get("words", ()))
        stage_id = message.stage_id
        taken = self._take(message)
        growth = taken - self._num_reported[stage_id]
        if message.finished or growth < self._stages[stage_id].report_every:
            return None
        self._num_reported[stage_id] = taken
        return stage_id, taken

    def _take(self, message: OutputMessage) -> int:
        """Count an output as taken; how much of its stage's output was, in all."""
        is_audio = self._stages[message.stage_id].is_audio
        size = output_size(is_audio, message.payload, message.num_samples)
        self._num_taken[message.stage_id] += size
        return self._num_taken[message.stage_id]

    def _cut(self, message: AckMessage) -> None:
        """Drop what was not sent; the answer says what was, in ms and characters of the text.

        With ``played_ms`` from the client it also says what was heard.
        """
        played_ms = message.result.pop("played_ms", None)
        sent = self._num_consumed
        result: dict[str, Any] = {
            "sent_ms": self._to_ms(sent),
            "sent_chars": self._chars_until(sent),
            **message.result,
        }
        if played_ms is not None:
            heard = min(int(played_ms * self._sample_rate / 1000), sent)
            result |= {"heard_ms": self._to_ms(heard), "heard_chars": self._chars_until(heard)}
        message.result = result
        dropped = [m for m in self._messages if isinstance(m, OutputMessage)]
        self._messages = deque(m for m in self._messages if not isinstance(m, OutputMessage))
        self._num_consumed += sum(m.num_samples for m in dropped if "audio" in (m.payload or {}))
        for m in dropped:  # the orchestrator knows that they are gone
            self._num_reported[m.stage_id] = self._take(m)

    def _chars_until(self, sample: int) -> int:
        """Characters of the text up to the last word that had wholly sounded by then."""
        for _first, last_sample, _first_char, last_char in reversed(self._words):
            if last_sample <= sample:
                return last_char
        return 0

    def _to_ms(self, num_samples: int) -> int:
        return round(num_samples * 1000 / self._sample_rate)


def is_terminal(message: ToCaller) -> bool:
    """Whether this is the last message of its request."""
    match message:
        case OutputMessage():
            return message.finished
        case ErrorMessage():
            return message.fatal
        case _:
            return False
