"""Time to first audio over HTTP for one sentence, beside the bare library's."""

from __future__ import annotations

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.speech_client import SpeechConnection, connect
from benchmarks.texts import sentences

# By the number of words of the sentence: the bound on the ratio of the medians.
TARGETS = {5: 1.1, 20: 0.45, 100: 0.3}
PERCENTS = (50, 95, 99)
_NUM_WARM_UP = 5


def run(options: Options) -> Report:
    """Server and library take turns, one request at a time, on the same sentences."""
    bare = BareLibrary()
    with running_server(options.pipeline) as server:
        samples = run_async(_measure(server.port, bare, options))
    figures = [
        figure for num_words, pair in samples.items() for figure in _figures(num_words, *pair)
    ]
    details = {
        str(num_words): {"server_ms": ours, "bare_ms": theirs}
        for num_words, (ours, theirs) in samples.items()
    }
    return Report("ttfa", figures, details)


async def _measure(
    port: int, bare: BareLibrary, options: Options
) -> dict[int, tuple[list[float], list[float]]]:
    """Milliseconds of server and library by number of words."""
    connection = await connect(port)
    samples = {}
    for num_words in TARGETS:
        texts = sentences(num_words, options.pick(100, 2) + _NUM_WARM_UP, num_words)
        pairs = [await _pair(connection, bare, text) for text in texts][_NUM_WARM_UP:]
        samples[num_words] = ([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
    connection.abort()
    return samples


async def _pair(connection: SpeechConnection, bare: BareLibrary, text: str) -> tuple[float, float]:
    answer = await connection.speak(text)
    return answer.ttfa_s * 1000, bare.ttfa_s(text) * 1000


def _figures(num_words: int, ours: list[float], theirs: list[float]) -> list[Figure]:
    return [
        Figure(
            f"{num_words} words, p{percent}",
            percentile(ours, percent),
            "ms",
            percentile(theirs, percent),
            TARGETS[num_words] if percent == 50 else None,
            better="lower",
        )
        for percent in PERCENTS
    ]
