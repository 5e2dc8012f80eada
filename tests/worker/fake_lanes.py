"""A transport for tests of the step loop: two lists instead of two sockets."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from engine.messages import FromReplica, StageOutput, Stop, ToReplica


class FakeLanes:
    """``script`` is called with each message that the loop sends, and may put answers."""

    def __init__(self, script: Callable[[FakeLanes, FromReplica], None] | None = None) -> None:
        self.sent: list[FromReplica] = []
        self.script = script or (lambda _lanes, _message: None)
        self._inbox: deque[ToReplica] = deque()  # put into by several threads
        self._has_news = threading.Event()
        self.answered = threading.Event()

    def put(self, *messages: ToReplica) -> None:
        self._inbox.extend(messages)
        self._has_news.set()

    def stop(self) -> None:
        self.put(Stop())

    def wait(self, timeout_s: float) -> None:
        self._has_news.wait(timeout_s)
        self._has_news.clear()

    def wake(self) -> None:
        self._has_news.set()

    def receive(self) -> list[ToReplica]:
        return [self._inbox.popleft() for _ in range(len(self._inbox))]

    def send(self, message: FromReplica) -> None:
        self.sent.append(message)
        self.answered.set()
        self.script(self, message)

    def send_control(self, message: FromReplica) -> None:
        self.send(message)

    def outputs(self) -> list[StageOutput]:
        return [message for message in self.sent if isinstance(message, StageOutput)]
