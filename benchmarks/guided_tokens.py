"""Tokens per second through the engine, beside vLLM's own ``AsyncLLM`` streaming the same rows.

Both run the same checkpoint with the same settings, each in a process of its own, in turns: a round
of one, a round of the other. vLLM has its own scheduler and no guidance: a guided request is then
two rows that know nothing of each other. The engine's figure is of its stage alone, from the
caller's ``generate`` over the orchestrator to the worker and back. All tokens of all rows count.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, Report
from benchmarks.options import Options
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


def run(options: Options) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder))
        set_environment(llm_config(Path(folder)))
        # Not uvloop: a worker runs AsyncLLM on the same loop as this.
        return asyncio.run(_measure(Path(folder), options))


async def _measure(folder: Path, options: Options) -> Report:
    bare = _launch_bare(folder)
    engine = AsyncOmniEngine(one_stage(folder), EngineConfig(heartbeat_timeout_s=60.0))
    engine.start()
    try:
        await engine.wait_ready(600)
        return await _compare(_engine_round(engine), _bare_round(bare), options)
    finally:
        await engine.shutdown(0.1)
        bare.shutdown(timeout=0)


async def _compare(ours: Round, bare: Round, options: Options) -> Report:
    num_rounds = options.pick(9, 1)
    num_tokens = options.pick(NUM_TOKENS, 8)
    figures, details = list[Figure](), dict[str, Any]()
    for guided, count in itertools.product((False, True), _COUNTS[options.quick]):
        rates = await _alternate(ours, bare, count, guided, num_tokens, num_rounds)
        name = f"{'guided' if guided else 'solo'} requests at once: {count}"
        value = statistics.median(ours_rate for ours_rate, _ in rates)
        # Of the ratios of neighbouring rounds the median: what else the machine does varies more
        # from minute to minute than from one round to the next.
        ratio = statistics.median(ours_rate / bare_rate for ours_rate, bare_rate in rates)
        figures.append(Figure(name, value, "rows' tokens/s", value / ratio, TARGET))
        details[name] = rates
    return Report("guided_tokens", figures, details)


async def _alternate(
    ours: Round, bare: Round, count: int, guided: bool, num_tokens: int, num_rounds: int
) -> list[tuple[float, float]]:
    """Tokens per second of both, a pair for each round; one more round before warms up."""
    rates = []
    for _ in range(num_rounds + 1):
        pair = [await _rate(one, count, guided, num_tokens) for one in (ours, bare)]
        rates.append((pair[0], pair[1]))
    return rates[1:]


async def _rate(one: Round, count: int, guided: bool, num_tokens: int) -> float:
    started = time.perf_counter()
    num_made = await one(count, guided, num_tokens)
    assert num_made == count * num_tokens * (2 if guided else 1), "tokens are missing"
    return num_made / (time.perf_counter() - started)


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
    return AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))


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
