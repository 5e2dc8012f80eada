"""The outputs of one request on their way from the orchestrator's thread to its caller."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from engine.messages import ErrorMessage, OutputMessage, ToCaller


class OutputQueue:
    """Many puts from the orchestrator's thread, one reader on any event loop.

    The queue itself has no bound: the orchestrator pauses a request whose caller does not read
    (``max_buffered_audio_s``), which it learns from ``report_consumed``.
    """

    def __init__(self, report_every: int, report_consumed: Callable[[int], None]) -> None:
        self._messages: deque[ToCaller] = deque()
        self._lock = threading.Lock()
        self._waiter: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None
        self._report_every = report_every
        self._report_consumed = report_consumed
        self._num_consumed = 0
        self._num_reported = 0
        self.is_closed = False

    def put(self, message: ToCaller) -> None:
        """Add a message. Called on the orchestrator's thread."""
        with self._lock:
            self._messages.append(message)
            waiter, self._waiter = self._waiter, None
            if is_terminal(message):
                self.is_closed = True
        if waiter is not None:
            loop, future = waiter
            try:
                loop.call_soon_threadsafe(_wake, future)
            except RuntimeError:
                return  # the reader's loop has been closed; nobody waits any more

    async def get(self) -> ToCaller:
        """The next message; waits for it. Only one reader at a time."""
        while True:
            with self._lock:
                if self._messages:
                    message = self._messages.popleft()
                    break
                loop = asyncio.get_running_loop()
                future = loop.create_future()
                self._waiter = (loop, future)
            await future
        self._count(message)
        return message

    def _count(self, message: ToCaller) -> None:
        if not isinstance(message, OutputMessage) or message.finished:
            return
        self._num_consumed += message.num_samples
        if self._num_consumed - self._num_reported >= self._report_every:
            self._num_reported = self._num_consumed
            self._report_consumed(self._num_consumed)


def is_terminal(message: ToCaller) -> bool:
    """Whether this is the last message of its request."""
    match message:
        case OutputMessage():
            return message.finished
        case ErrorMessage():
            return message.fatal
        case _:
            return False


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
