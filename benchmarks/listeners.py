"""How many real-time listeners the server serves at once without an underrun.

Listeners arrive as a Poisson process, whatever the server does, and stay until their player has
played all. A level passes when, in its window, no player ran dry, every text was answered whole,
and 99 of 100 waited at most a second for their first sound (else waiting would pass for playing).
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass

from benchmarks.arrivals import Bisection, poisson_times
from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.player import Player, mean_listening
from benchmarks.processes import CpuMeter, CpuUse
from benchmarks.quantiles import percentile
from benchmarks.server_process import ServerProcess, running_server
from benchmarks.speech_client import SpeechConnection, connect, speak_all
from benchmarks.texts import sentences

TARGET = 0.75
_NUM_WORDS = 20
_BARE_THREADS = 2
_MAX_TTFA_S = 1.0
# Levels to try, as shares of the library's audio seconds per second.
_LOWEST, _HIGHEST, _STEP = 0.3, 1.2, 0.05
# A level that failed is tried once more: on a shared machine one stall is often not ours.
_NUM_TRIES = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """One level, once. ``num_listening`` is the mean over the window, ``bare_rate`` the library's
    audio seconds per second around it.
    """

    share: float
    bare_rate: float
    num_listening: float
    num_arrivals: int
    num_failed: int
    num_underruns: int
    stalled_s: float
    ttfa_p50_ms: float
    ttfa_p99_ms: float
    others_cores: float
    client_cores: float

    @property
    def passed(self) -> bool:
        return not (self.num_failed or self.num_underruns or self.ttfa_p99_ms > _MAX_TTFA_S * 1000)


@dataclass(frozen=True, slots=True)
class _Load:
    """Arrivals at a rate, for the time that fills the house and for the window after it."""

    rate_per_s: float
    fill_s: float
    window_s: float
    seed: int


def run(options: Options) -> Report:
    """Bisect the share of the library's throughput that the server turns into listeners."""
    bare = BareLibrary()
    trials: list[Trial] = []
    with running_server(options.pipeline) as server:
        warm_up = sentences(99, options.pick(32, 4), _NUM_WORDS)
        answers = run_async(speak_all(server.port, warm_up, 4))
        mean_s = sum(answer.audio_s for answer in answers) / len(answers)
        search = Bisection(_LOWEST, _HIGHEST, options.pick(1, 100) * _STEP)
        while search.level is not None:
            for _ in range(options.pick(_NUM_TRIES, 1)):
                trial = _try(server, bare, search.level, mean_s, options)
                trials.append(trial)
                if trial.passed:
                    break
            search.report(trials[-1].passed)
    return _report(trials)


def _bare_rate(bare: BareLibrary, options: Options) -> float:
    burst = bare.speak_all(sentences(7, options.pick(48, 4), _NUM_WORDS), _BARE_THREADS)
    return burst.audio_s / burst.wall_s


def _try(
    server: ServerProcess, bare: BareLibrary, share: float, mean_s: float, options: Options
) -> Trial:
    """One level, with the library's speed taken just before and just after."""
    before = _bare_rate(bare, options)
    fill_s, window_s = (0.5, 1.0) if options.quick else (2 * mean_s, 20.0)
    wanted = 2.0 if options.quick else share * before
    load = _Load(wanted / mean_s, fill_s, window_s, seed=round(share * 1000))
    meter = CpuMeter(server.pids)
    outcomes, window_start = run_async(_listen(server.port, load))
    cpu = meter.stop()
    rate = (before + _bare_rate(bare, options)) / 2
    return _judge(share, rate, outcomes, window_start, load, cpu)


async def _listen(port: int, load: _Load) -> tuple[list[tuple[Player, bool]], float]:
    """Every player with whether its text was answered whole, and when the window began."""
    idle: list[SpeechConnection] = []
    texts = iter(sentences(load.seed, _num_texts(load), _NUM_WORDS))
    started = time.perf_counter()
    tasks = []
    for arrival_s in poisson_times(load.rate_per_s, load.fill_s + load.window_s, load.seed):
        await asyncio.sleep(max(started + arrival_s - time.perf_counter(), 0))
        tasks.append(asyncio.create_task(_listener(port, idle, next(texts))))
    outcomes = await asyncio.gather(*tasks)
    for connection in idle:
        connection.abort()
    return outcomes, started + load.fill_s


def _num_texts(load: _Load) -> int:
    """More than ever arrive: 10 standard deviations above the mean number of arrivals."""
    mean = load.rate_per_s * (load.fill_s + load.window_s)
    return int(mean + 10 * mean**0.5 + 10)


async def _listener(port: int, idle: list[SpeechConnection], text: str) -> tuple[Player, bool]:
    player = Player(time.perf_counter())
    connection = idle.pop() if idle else await connect(port)
    answer = await connection.speak(text, on_audio=player.feed)
    if connection.is_open:
        idle.append(connection)
    return player, answer.is_ok


def _judge(
    share: float,
    bare_rate: float,
    outcomes: list[tuple[Player, bool]],
    start: float,
    load: _Load,
    cpu: CpuUse,
) -> Trial:
    end = start + load.window_s
    heard = [player for player, _ in outcomes if player.started_at is not None]
    present = [player for player in heard if player.ends_at > start]
    ttfa_ms = [player.ttfa_s * 1000 for player in present if player.arrived_at >= start] or [0.0]
    return Trial(
        share,
        bare_rate,
        mean_listening(heard, start, end),
        len(outcomes),
        sum(not is_ok for _, is_ok in outcomes),
        sum(player.num_underruns for player in present),
        sum(player.stalled_s for player in present),
        percentile(ttfa_ms, 50),
        percentile(ttfa_ms, 99),
        cpu.others_cores,
        cpu.by_name["client"] / cpu.wall_s,
    )


def _report(trials: list[Trial]) -> Report:
    passed = [trial for trial in trials if trial.passed]
    best = max(passed, key=lambda trial: trial.num_listening / trial.bare_rate, default=None)
    figures = [
        Figure(
            "listeners without underrun",
            best.num_listening if best else 0.0,
            "listeners",
            (best or trials[-1]).bare_rate,
            TARGET,
        )
    ]
    if best:
        figures.append(Figure("their TTFA, p50", best.ttfa_p50_ms, "ms", better="lower"))
        figures.append(Figure("their TTFA, p99", best.ttfa_p99_ms, "ms", better="lower"))
    return Report("listeners", figures, {"trials": [asdict(trial) for trial in trials]})
