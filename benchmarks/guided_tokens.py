"""Tokens per second through the engine, beside vLLM's own ``AsyncLLM`` streaming the same rows.

Both run the same checkpoint with the same settings, each in a process of its own, in turns: a round
of one, a round of the other, then the other way round. The caller of both is this process, whose
event loop is uvloop, as in the servers of both; neither side makes text of its tokens, both hand
them on as they come. vLLM has its own scheduler and no guidance: a guided request is then two rows
that know nothing of each other. The engine's figure is of its stage alone, from the caller's
``generate`` over the orchestrator to the worker and back. All tokens of all rows count.

The details have the CPU time per token of each process, which other programs disturb less than they
do the rates: ``client`` is this process (with the orchestrator's thread, or else with vLLM's front
end), ``worker`` has vLLM's front end, ``core`` runs the model.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import statistics
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.processes import CpuMeter, children
from benchmarks.token_model import llm_config, one_stage, prompt_tokens, write_model
from engine.async_omni_engine import AsyncOmniEngine
from engine.config import EngineConfig
from worker.vllm.launch import engine_arguments, set_environment

NUM_TOKENS = 100
TARGET = 0.95
_COUNTS = {False: (1, 8, 32), True: (2,)}
# What voxloom adds to vLLM's arguments; without them vLLM takes its own defaults.
_OURS = ("scheduler_cls", "logits_processors", "enable_chunked_prefill", "async_scheduling")

Round = Callable[[int, bool, int], Awaitable[int]]
_ids = itertools.count()


@dataclass(frozen=True, slots=True)
class _Load:
    """So many requests at once, of so many tokens a row."""

    count: int
    guided: bool
    num_tokens: int

    @property
    def num_rows_tokens(self) -> int:
        return self.count * self.num_tokens * (2 if self.guided else 1)


class _Side:
    """One of the two. ``pids``: its processes besides this one."""

    def __init__(self, play: Round, pids: dict[str, int]) -> None:
        self._play = play
        self._pids = pids
        self._cpu_s = Counter[str]()
        self._num_tokens = 0

    def forget(self) -> None:
        """Count the CPU time from now on."""
        self._cpu_s.clear()
        self._num_tokens = 0

    async def round(self, load: _Load) -> float:
        """Tokens per second."""
        meter = CpuMeter(self._pids)
        num_made = await self._play(load.count, load.guided, load.num_tokens)
        use = meter.stop()
        assert num_made == load.num_rows_tokens, "tokens are missing"
        self._cpu_s.update(use.by_name)
        self._num_tokens += num_made
        return num_made / use.wall_s

    def cpu_us_per_token(self) -> dict[str, float]:
        """By process."""
        return {name: used_s * 1e6 / self._num_tokens for name, used_s in self._cpu_s.items()}


def run(options: Options) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        set_environment(llm_config(Path(folder)))
        return run_async(_measure(Path(folder), options))


async def _measure(folder: Path, options: Options) -> Report:
    bare = _launch_bare(folder)
    bare_core = _core_of(os.getpid())
    before = children(os.getpid())
    engine = AsyncOmniEngine(one_stage(folder), EngineConfig(heartbeat_timeout_s=60.0))
    engine.start()
    try:
        await engine.wait_ready(600)
        (worker,) = set(children(os.getpid())) - set(before)
        ours = _Side(_engine_round(engine), {"worker": worker, "core": _core_of(worker)})
        return await _compare(ours, _Side(_bare_round(bare), {"core": bare_core}), options)
    finally:
        await engine.shutdown(0.1)
        bare.shutdown(timeout=0)


def _core_of(pid: int) -> int:
    """The child that runs the model; vLLM gives it a name."""
    (core,) = (c for c in children(pid) if Path(f"/proc/{c}/comm").read_text().startswith("VLLM"))
    return core


async def _compare(ours: _Side, bare: _Side, options: Options) -> Report:
    num_rounds = options.pick(20, 1)
    num_tokens = options.pick(NUM_TOKENS, 8)
    figures, details = list[Figure](), dict[str, Any]()
    for guided, count in itertools.product((False, True), _COUNTS[options.quick]):
        rates = await _alternate(ours, bare, _Load(count, guided, num_tokens), num_rounds)
        name = f"{'guided' if guided else 'solo'} requests at once: {count}"
        value = statistics.median(ours_rate for ours_rate, _ in rates)
        # Of the ratios of neighbouring rounds the median: what else the machine does varies more
        # from minute to minute than from one round to the next.
        ratio = statistics.median(ours_rate / bare_rate for ours_rate, bare_rate in rates)
        figures.append(Figure(name, value, "rows' tokens/s", value / ratio, TARGET))
        details[name] = {
            "rates": rates,
            "cpu_us_per_token": [side.cpu_us_per_token() for side in (ours, bare)],
        }
    return Report("guided_tokens", figures, details)


async def _alternate(
    ours: _Side, bare: _Side, load: _Load, num_rounds: int
) -> list[tuple[float, float]]:
    """Tokens per second of both, a pair for each round; one more round before warms up."""
    await ours.round(load)
    await bare.round(load)
    ours.forget()
    bare.forget()
    rates = []
    for number in range(num_rounds):
        if number % 2:
            bare_rate, ours_rate = await bare.round(load), await ours.round(load)
        else:
            ours_rate, bare_rate = await ours.round(load), await bare.round(load)
        rates.append((ours_rate, bare_rate))
    return rates


def _engine_round(engine: AsyncOmniEngine) -> Round:
    async def request(number: int, guided: bool, num_tokens: int) -> int:
        prompt = {"number": number, "num_tokens": num_tokens, "guided": guided}
        num_made = 0
        async for output in engine.generate(f"r{number}", prompt):
            num_made += len(output.payload.get("tokens", ()))
        return num_made * (2 if guided else 1)

    async def one_round(count: int, guided: bool, num_tokens: int) -> int:
        jobs = [request(next(_ids), guided, num_tokens) for _ in range(count)]
        return sum(await asyncio.gather(*jobs))

    return one_round


def _launch_bare(folder: Path) -> Any:
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.v1.engine.async_llm import AsyncLLM

    arguments = engine_arguments(llm_config(folder))
    for name in _OURS:
        del arguments[name]
    engine = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
    # As vLLM's own server does once it has started, and a worker of ours.
    gc.collect()
    gc.freeze()
    return engine


def _bare_round(bare: Any) -> Round:
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    async def row(prompt: list[int], num_tokens: int) -> int:
        params = SamplingParams(
            max_tokens=num_tokens,
            temperature=0.0,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        num_made = 0
        given = {"type": "token", "prompt_token_ids": prompt}
        async for output in bare.generate(given, params, f"bare{next(_ids)}"):
            num_made += len(output.outputs[0].token_ids)
        return num_made

    async def one_round(count: int, guided: bool, num_tokens: int) -> int:
        prompts = [
            prompt_tokens(number, free=free)
            for number in [next(_ids) for _ in range(count)]
            for free in ([False, True] if guided else [False])
        ]
        return sum(await asyncio.gather(*(row(prompt, num_tokens) for prompt in prompts)))

    return one_round
