"""Audio seconds per second at concurrency 16, beside the bare library at its best."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.bare_library import BareBurst, BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.processes import CpuMeter, CpuUse
from benchmarks.quantiles import quiet_ones
from benchmarks.server_process import ServerProcess, running_server
from benchmarks.speech_client import speak_all
from benchmarks.texts import sentences

CONCURRENCY = 16
NUM_WORDS = 20
TARGET = 0.9
# The library is fastest with one of these, by machine.
_BARE_THREADS = (2, 4)
# Rounds in which other programs used more cores than this are left out, if enough are left.
_QUIET_CORES = 0.15
_NUM_QUIET_ROUNDS = 7
_MAX_ROUNDS = 30
_MAX_S = 240.0


@dataclass(frozen=True, slots=True)
class ServerBurst:
    """As ``BareBurst``, with the CPU time of each process."""

    num_texts: int
    wall_s: float
    audio_s: float
    cpu: CpuUse


@dataclass(frozen=True, slots=True)
class Round:
    """The same texts, once through the server and once through the library per thread count."""

    server: ServerBurst
    bare: dict[int, BareBurst]
    bare_cpu: dict[int, CpuUse]

    @property
    def others_cores(self) -> float:
        return max(self.server.cpu.others_cores, *(c.others_cores for c in self.bare_cpu.values()))


def run(options: Options) -> Report:
    """Short bursts in turn, so that a noisy machine is equally noisy for both."""
    num_texts = options.pick(48, 4)
    bare = BareLibrary()
    rounds: list[Round] = []
    give_up_at = time.monotonic() + _MAX_S
    with running_server(options.pipeline) as server:
        serve_burst(server, sentences(0, num_texts, NUM_WORDS))
        for seed in range(1, 1 + options.pick(_MAX_ROUNDS, 1)):
            rounds.append(_round(server, bare, sentences(seed, num_texts, NUM_WORDS)))
            num_quiet = sum(r.others_cores < _QUIET_CORES for r in rounds)
            if num_quiet >= _NUM_QUIET_ROUNDS or time.monotonic() > give_up_at:
                break
    return _report(rounds)


def serve_burst(server: ServerProcess, texts: list[str]) -> ServerBurst:
    """All texts through the server. Raises ``RuntimeError`` if one is not answered whole."""
    meter = CpuMeter(server.pids)
    answers = run_async(speak_all(server.port, texts, CONCURRENCY))
    cpu = meter.stop()
    failed = [answer for answer in answers if not answer.is_ok]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(answers)} texts failed, first: {failed[0]}")
    return ServerBurst(len(texts), cpu.wall_s, sum(a.audio_s for a in answers), cpu)


def _round(server: ServerProcess, bare: BareLibrary, texts: list[str]) -> Round:
    bursts, cpus = {}, {}
    for num_threads in _BARE_THREADS:
        meter = CpuMeter({})
        bursts[num_threads] = bare.speak_all(texts, num_threads)
        cpus[num_threads] = meter.stop()
    return Round(serve_burst(server, texts), bursts, cpus)


def _report(rounds: list[Round]) -> Report:
    used = quiet_ones(rounds, lambda r: r.others_cores, _QUIET_CORES)
    best = max(_BARE_THREADS, key=lambda n: median(_rate(r.bare[n]) for r in used))
    bare_rate = median(_rate(r.bare[best]) for r in used)
    # The median of the rounds' ratios, not the ratio of medians: each round is one moment.
    audio_ratio = median(_rate(r.server) / _rate(r.bare[best]) for r in used)
    text_ratio = median(r.bare[best].wall_s / r.server.wall_s for r in used)
    text_rate = median(r.bare[best].num_texts / r.bare[best].wall_s for r in used)
    figures = [
        Figure(
            "audio delivered at concurrency 16",
            audio_ratio * bare_rate,
            "audio s/s",
            bare_rate,
            TARGET,
        ),
        Figure("texts at concurrency 16", text_ratio * text_rate, "texts/s", text_rate),
        Figure(
            "CPU per text",
            median(sum(r.server.cpu.by_name.values()) / r.server.num_texts for r in used) * 1000,
            "ms",
            median(r.bare_cpu[best].by_name["client"] / r.bare[best].num_texts for r in used)
            * 1000,
            better="lower",
        ),
        # Above the limit the rates say little: whoever has more processes gets more of the machine.
        Figure(
            "used by other programs meanwhile",
            median(r.others_cores for r in used),
            "cores",
            better="lower",
        ),
    ]
    return Report("throughput", figures, _details(rounds, used, best))


def _details(rounds: list[Round], used: list[Round], best: int) -> dict[str, object]:
    names = used[0].server.cpu.by_name
    return {
        "bare_threads": best,
        "num_rounds_used": len(used),
        "cpu_ms_per_text": {
            name: median(r.server.cpu.by_name[name] / r.server.num_texts for r in used) * 1000
            for name in names
        },
        "cores_used": median(sum(r.server.cpu.by_name.values()) / r.server.wall_s for r in used),
        "audio_s_per_text": {
            "server": median(r.server.audio_s / r.server.num_texts for r in used),
            "bare": median(r.bare[best].audio_s / r.bare[best].num_texts for r in used),
        },
        "rounds": [asdict(r) | {"others_cores": r.others_cores} for r in rounds],
    }


def _rate(burst: ServerBurst | BareBurst) -> float:
    return burst.audio_s / burst.wall_s
