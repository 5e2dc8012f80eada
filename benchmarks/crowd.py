"""Two hundred speech sockets at once, with as many real-time listeners as the machine can serve.

Each socket is open all the time. Its user has a paragraph written, token by token, listens until
the player has played all of it, and is quiet for a while, by the roll of a die. How long decides
how many of them listen at any time: 120, which two cores can serve, and on a slower machine the
share of the library's audio seconds per second that the ``listeners`` benchmark has to reach.
``lag``: how late the server's event loop was, as it counts itself
(``voxloom_event_loop_lag_seconds``).
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.listeners import TARGET as LISTENERS_SHARE
from benchmarks.loop_lag import bound_of, lags_of
from benchmarks.options import Options, run_async
from benchmarks.player import Player, mean_listening
from benchmarks.processes import CpuMeter
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.socket_client import session, talk
from benchmarks.texts import sentences

LAG_TARGET_MS = 20.0
_NUM_SOCKETS, _NUM_LISTENERS = 200, 120
_NUM_WORDS, _NUM_SENTENCES = 20, 2
_BARE_THREADS = 2
# Spoken by the default voice; a turn also has the time until its first clause is written.
_TURN_S = 13.5
_FILL_S, _WINDOW_S = 20.0, 40.0
# The server closes a socket that has been idle for half a minute.
_MAX_QUIET_S = 25.0


@dataclass(frozen=True, slots=True)
class _Crowd:
    """``quiet_s``: how long a user is quiet between two turns, on average."""

    num_sockets: int
    quiet_s: float
    fill_s: float
    window_s: float

    @property
    def end_s(self) -> float:
        return self.fill_s + self.window_s


def run(options: Options) -> Report:
    """One crowd; all sessions must answer every paragraph whole."""
    bare = BareLibrary()
    with running_server(options.pipeline) as server:
        burst = bare.speak_all(sentences(7, options.pick(48, 4), _NUM_WORDS), _BARE_THREADS)
        rate = burst.audio_s / burst.wall_s
        crowd = _crowd(rate, options)
        meter = CpuMeter(server.pids)
        lags_before = lags_of(server)
        players, started = run_async(_gather(server.port, crowd))
        lags = {bound: num - lags_before[bound] for bound, num in lags_of(server).items()}
        cpu = meter.stop()
    start, end = started + crowd.fill_s, started + crowd.end_s
    listening = mean_listening(players, start, end)
    figures = [
        Figure("sockets", crowd.num_sockets, ""),
        Figure("listeners, mean", listening, "", rate),
        Figure("paragraphs", len(players), ""),
        Figure("underruns", sum(p.num_underruns for p in players), "", target=0, better="lower"),
        Figure("stalled", 1000 * sum(p.stalled_s for p in players), "ms", better="lower"),
        Figure(
            "event-loop lag, p99 (at most)",
            1000 * bound_of(lags, 99),
            "ms",
            target=LAG_TARGET_MS,
            better="lower",
        ),
        Figure(
            "first audio after the first token, p50",
            1000 * percentile([player.ttfa_s for player in players], 50),
            "ms",
            better="lower",
        ),
        Figure("used by other programs meanwhile", cpu.others_cores, "cores", better="lower"),
    ]
    cores = {name: used / cpu.wall_s for name, used in cpu.by_name.items()}
    lags_ms = {f"{1000 * bound:g}": num for bound, num in sorted(lags.items())}
    return Report("crowd", figures, {"cores": cores, "num_lags_up_to_ms": lags_ms})


def _crowd(rate: float, options: Options) -> _Crowd:
    num_sockets = options.pick(_NUM_SOCKETS, 4)
    share = min(_NUM_LISTENERS, LISTENERS_SHARE * rate) / _NUM_SOCKETS
    if options.quick:
        return _Crowd(num_sockets, 0.1, 0.1, 0.5)
    return _Crowd(num_sockets, _TURN_S * (1 / share - 1), _FILL_S, _WINDOW_S)


async def _gather(port: int, crowd: _Crowd) -> tuple[list[Player], float]:
    """The players of all turns, and when the first could begin."""
    started = time.perf_counter()
    users = [_user(port, crowd, number, started) for number in range(crowd.num_sockets)]
    turns = await asyncio.gather(*users)
    return [player for players in turns for player in players], started


async def _user(port: int, crowd: _Crowd, number: int, started: float) -> list[Player]:
    """Turns on one socket until the window is over; the last is heard to its end."""
    rng = random.Random(number)
    players: list[Player] = []
    # As if it had been like this for ever: some are quiet, some would be in the midst of a turn.
    wait_s = rng.random() * min(_TURN_S + crowd.quiet_s, crowd.fill_s)
    texts = iter(sentences(1000 + number, 40 * _NUM_SENTENCES, _NUM_WORDS))
    async with session(port) as socket:
        while time.perf_counter() + wait_s < started + crowd.end_s:
            await asyncio.sleep(wait_s)
            text = " ".join(next(texts) for _ in range(_NUM_SENTENCES))
            player = (await talk(socket, text)).player
            players.append(player)
            played_in_s = max(0.0, player.ends_at - time.perf_counter())
            wait_s = played_in_s + min(rng.expovariate(1 / crowd.quiet_s), _MAX_QUIET_S)
    return players
