"""Time to first audio of hibari-talker over HTTP: one sentence of twenty words, guided and not.

Fast speech waits for more tokens before its first sound: one client also asks for the fastest.
"""

from __future__ import annotations

from typing import Any

from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.speech_client import speak_all
from benchmarks.texts import sentences

NUM_WORDS = 20
GUIDED = {"instructions": "slowly, in a low voice"}
# By number of clients, what they ask for.
WAYS: dict[int, dict[str, dict[str, Any]]] = {
    1: {"guided": GUIDED, "neutral": {}, "guided, speed 4": GUIDED | {"speed": 4.0}},
    8: {"guided": GUIDED, "neutral": {}},
}
# Milliseconds by number of clients, guided.
TARGETS = {1: 400.0, 8: 1000.0}
_NUM_WARM_UP = 4
_ROUNDS = 6


def run(options: Options) -> Report:
    """Closed loop; each client asks for the next sentence when it has heard one whole."""
    pipeline = "hibari-talker" if options.pipeline == "hibari" else options.pipeline
    rounds = options.pick(_ROUNDS, 1)
    with running_server(pipeline) as server:
        run_async(speak_all(server.port, sentences(1, _NUM_WARM_UP, NUM_WORDS), 1))
        samples = {
            (num_clients, way): _measure(
                server.port,
                sentences(num_clients + number, num_clients * rounds, NUM_WORDS),
                num_clients,
                fields,
            )
            for num_clients, ways in WAYS.items()
            for number, (way, fields) in enumerate(ways.items(), 1)
        }
    figures = [
        Figure(
            f"{num_clients} at once, {way}",
            percentile(values, 50),
            "ms",
            target=TARGETS[num_clients] if way == "guided" else None,
            better="lower",
        )
        for (num_clients, way), values in samples.items()
    ]
    details = {f"{n}, {way}": values for (n, way), values in samples.items()}
    return Report("talker_ttfa", figures, {"ms": details})


def _measure(port: int, texts: list[str], num_clients: int, fields: dict[str, Any]) -> list[float]:
    """Milliseconds to the first audio of each answer."""
    answers = run_async(speak_all(port, texts, num_clients, **fields))
    return [answer.ttfa_s * 1000 for answer in answers]
