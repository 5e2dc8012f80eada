"""What other processes print to this one's standard error, kept while it passes by.

vLLM loads its model in processes of its own; when one fails, its parent only learns that it did.
"""

from __future__ import annotations

import os
import re
import selectors
import threading
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Self

# Tracebacks of vLLM's processes are about a hundred lines long, and there are up to three.
_MAX_LINES = 600
# A limit against hanging: what is in the pipe is read as soon as the thread gets a processor.
_DRAIN_S = 10.0
# A traceback's last line: an exception's name and message, perhaps behind a log prefix.
_CAUSE = re.compile(r"(?:^|\s)((?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception)): (.+)$")
# A check that failed without a message: its traceback shows the check, and then only this.
_CHECK, _CHECK_FAILED = re.compile(r"(?:^|\s)(assert .+)$"), "AssertionError"
# These only say that something else failed.
_FOLLOW_UPS = ("Engine core initialization failed", "Failed core proc", "WorkerProc initialization")


class StderrTail:
    """While entered, file descriptor 2 is a pipe whose lines are passed on and remembered."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_MAX_LINES)

    def __enter__(self) -> Self:
        self._saved, self._is_open = os.dup(2), True
        read_end, write_end = os.pipe()
        os.dup2(write_end, 2)
        os.close(write_end)
        asked_read, self._asked_write = os.pipe()
        self._is_drained = threading.Event()
        threading.Thread(target=self._copy, args=(read_end, asked_read), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Put the descriptor back, and wait for what is still on its way.

        Processes that were started meanwhile and live keep their end: the thread goes on for them.
        """
        if self._is_open:
            self._is_open = False
            os.dup2(self._saved, 2)
            os.close(self._asked_write)
        self._is_drained.wait(_DRAIN_S)

    def cause(self) -> str | None:
        """The message of the first exception that names a cause, of those that came last."""
        return next((cause[:500] for cause in self._causes()), None)

    def _causes(self) -> Iterator[str]:
        check = None
        for line in map(str.rstrip, list(self._lines)):
            if found := _CHECK.search(line):
                check = found[1]
            elif check is not None and line.endswith(_CHECK_FAILED):
                yield f"it fails at {check!r}"
            elif (found := _CAUSE.search(line)) and not found[2].startswith(_FOLLOW_UPS):
                yield " ".join(found[2].split())

    def _copy(self, read_end: int, asked: int) -> None:
        """Until the pipe ends. When ``asked`` has ended and nothing is left, say that it is so."""
        with selectors.DefaultSelector() as selector:
            for descriptor in (read_end, asked):
                selector.register(descriptor, selectors.EVENT_READ)
            rest = b""
            while True:
                ready = {key.fd for key, _ in selector.select()}
                if read_end not in ready:
                    self._is_drained.set()
                    selector.unregister(asked)
                    continue
                if not (data := os.read(read_end, 65536)):
                    break
                os.write(self._saved, data)
                *lines, rest = (rest + data).split(b"\n")
                self._lines.extend(line.decode(errors="replace") for line in lines)
        for descriptor in (read_end, asked, self._saved):
            os.close(descriptor)
        self._is_drained.set()
