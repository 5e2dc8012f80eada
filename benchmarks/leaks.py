"""What is left after 2,000 requests of which half are aborted: nothing, and no more memory."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from dataclasses import dataclass

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.processes import rss_mib
from benchmarks.server_process import ServerProcess, running_server
from benchmarks.speech_client import SpeechConnection, connect
from benchmarks.texts import sentences

_CONCURRENCY = 16
_NUM_WORDS = 12
# Longer than a text of 12 words takes at this concurrency: some abort before the first byte, some
# in the middle, some just after the end.
_MAX_STAY_S = 0.5
_CHECK_TIMEOUT_S = 120.0
# Allocators do not give every page back: growth below this between the two looks is flat.
MAX_GROWTH_MIB = 8.0


@dataclass(frozen=True, slots=True)
class _Part:
    """Requests of one part of the run and what they left."""

    num_requests: int
    num_whole: int
    rss_mib: dict[str, float]
    integrity: str


def run(options: Options) -> Report:
    """Memory after a quarter of the requests and after all of them."""
    num_requests = options.pick(2000, 24)
    with running_server(
        options.pipeline, module="benchmarks.checked_server", arguments=()
    ) as server:
        parts = [
            _part(server, seed=0, num_requests=num_requests // 4),
            _part(server, seed=1, num_requests=num_requests - num_requests // 4),
        ]
    return _report(parts)


def _part(server: ServerProcess, seed: int, num_requests: int) -> _Part:
    num_whole = run_async(_half_aborted(server.port, seed, num_requests))
    integrity = _check_integrity(server)
    rss = {name: rss_mib(pid) for name, pid in server.pids.items()}
    return _Part(num_requests, num_whole, rss, integrity)


def _check_integrity(server: ServerProcess) -> str:
    """What ``check_integrity`` says when it says "ok", or at the end of the time it has for that.

    The server hears of the last client's leaving only some time after this process; what a request
    leaves behind for good is there at the end, too. Raises ``TimeoutError`` if it says nothing.
    """
    give_up_at = time.monotonic() + _CHECK_TIMEOUT_S
    while (said := _ask_integrity(server)) != "ok" and time.monotonic() < give_up_at:
        pass
    return said


def _ask_integrity(server: ServerProcess) -> str:
    before = len(_integrity_lines(server))
    give_up_at = time.monotonic() + _CHECK_TIMEOUT_S
    server.process.send_signal(signal.SIGUSR1)
    while time.monotonic() < give_up_at:
        lines = _integrity_lines(server)
        if len(lines) > before:
            return lines[-1].removeprefix("integrity: ")
        time.sleep(0.05)
    raise TimeoutError(f"no integrity check within {_CHECK_TIMEOUT_S:g} s")


def _integrity_lines(server: ServerProcess) -> list[str]:
    log = server.log_path.read_text(errors="replace")
    return [line for line in log.splitlines() if line.startswith("integrity: ")]


async def _half_aborted(port: int, seed: int, num_requests: int) -> int:
    """Ask for texts, every second one aborted at a random moment; how many answers were whole."""
    rng = random.Random(seed)
    waiting = iter(enumerate(sentences(seed, num_requests, _NUM_WORDS)))
    num_whole = 0

    async def client() -> None:
        nonlocal num_whole
        connection = await connect(port)
        for index, text in waiting:
            stay_s = rng.random() * _MAX_STAY_S if index % 2 else None
            is_whole = await _ask(connection, text, stay_s)
            num_whole += is_whole
            if not connection.is_open:
                connection = await connect(port)
        connection.abort()

    await asyncio.gather(*(client() for _ in range(_CONCURRENCY)))
    return num_whole


async def _ask(connection: SpeechConnection, text: str, stay_s: float | None) -> bool:
    """Whether the answer was whole; leaves after ``stay_s`` at the latest, if given."""
    if stay_s is None:
        answer = await connection.speak(text)
        if not answer.is_ok:
            raise RuntimeError(f"a text that was not aborted got status {answer.status}: {text!r}")
        return True
    leaving = asyncio.get_running_loop().call_later(stay_s, connection.abort)
    answer = await connection.speak(text)
    leaving.cancel()  # or it would cut the next answer on this connection
    return answer.is_ok


def _report(parts: list[_Part]) -> Report:
    first, second = parts
    num_bad = sum(part.integrity != "ok" for part in parts)
    num_aborted = sum(part.num_requests - part.num_whole for part in parts)
    figures = [
        Figure("integrity checks that failed", num_bad, "", target=0, better="lower"),
        Figure("requests that were cut short", num_aborted, "", better="lower"),
    ]
    figures += [
        Figure(
            f"growth of {name} after the first quarter",
            second.rss_mib[name] - first.rss_mib[name],
            "MiB",
            target=MAX_GROWTH_MIB,
            better="lower",
        )
        for name in first.rss_mib
    ]
    details = {
        "integrity": [part.integrity for part in parts],
        "rss_mib": [part.rss_mib for part in parts],
    }
    return Report("leaks", figures, details)
