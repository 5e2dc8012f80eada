"""Time to first audio of hibari-talker over HTTP: one sentence of twenty words, guided and not."""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.speech_client import speak_all
from benchmarks.texts import sentences

NUM_WORDS = 20
INSTRUCTIONS = "slowly, in a low voice"
# Milliseconds by number of clients, guided.
TARGETS = {1: 400.0, 8: 1000.0}
_NUM_WARM_UP = 4
_ROUNDS = 6


def run(options: Options) -> Report:
    """Closed loop; each client asks for the next sentence when it has heard one whole."""
    pipeline = "hibari-talker" if options.pipeline == "hibari" else options.pipeline
    samples: dict[tuple[int, bool], list[float]] = {}
    with running_server(pipeline) as server:
        run_async(speak_all(server.port, sentences(1, _NUM_WARM_UP, NUM_WORDS), 1))
        for num_clients in TARGETS:
            for guided in (True, False):
                count = num_clients * options.pick(_ROUNDS, 1)
                texts = sentences(num_clients + guided, count, NUM_WORDS)
                fields: dict[str, Any] = {"instructions": INSTRUCTIONS} if guided else {}
                answers = run_async(speak_all(server.port, texts, num_clients, **fields))
                samples[num_clients, guided] = [answer.ttfa_s * 1000 for answer in answers]
    figures = [
        Figure(
            f"{num_clients} at once, {'guided' if guided else 'neutral'}",
            percentile(values, 50),
            "ms",
            target=TARGETS[num_clients] if guided else None,
            better="lower",
        )
        for (num_clients, guided), values in samples.items()
    ]
    details = {f"{n}, guided={guided}": values for (n, guided), values in samples.items()}
    return Report("talker_ttfa", figures, {"ms": details})
