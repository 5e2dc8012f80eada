"""The speech socket as a voice agent uses it: text token by token, and interruptions.

``first clause``: from the sending of the first clause's last token to the first audio, beside the
time to first audio over HTTP for the same words; the two take turns. ``cancel``: from the sending
of a cancel to its answer, after which no audio comes. ``30 tokens/s``: as a language model writes,
several sessions at once, each with a player that began at the first audio; they begin at random
times, or, which is harder, ten of them at the same moment and in step.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket

from benchmarks.arrivals import poisson_times
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.player import Player
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.speech_client import SpeechConnection, connect
from benchmarks.texts import sentences

# The bound on the ratio of the medians, and on the 99th percentile in ms.
TTFA_TARGET, CANCEL_TARGET_MS = 1.2, 50.0
# A clause without another one in it.
_NUM_CLAUSE_WORDS = 9
_NUM_WORDS = 20
_NUM_LONG_WORDS = 100
_NUM_WARM_UP = 3
_NUM_AT_ONCE = 10
# A session is written in about six seconds: ten or so are being written at any time.
_ARRIVALS_PER_S = 1.5
_TOKENS_PER_S = 30
_CHARS_PER_TOKEN = 4
_MAX_STAY_S = 0.08
_CONFIG = {"response_format": "pcm", "stream_audio": True, "split_granularity": "clause"}


def run(options: Options) -> Report:
    """All three on one server."""
    with running_server(options.pipeline) as server:
        return run_async(_measure(server.port, options))


async def _measure(port: int, options: Options) -> Report:
    clauses = [
        text.rstrip(".!?") + ", "
        for text in sentences(11, options.pick(100, 2) + _NUM_WARM_UP, _NUM_CLAUSE_WORDS)
    ]
    ours, theirs = await _first_clauses(port, clauses)
    cancels_ms = await _cancels(port, sentences(12, options.pick(200, 3), _NUM_LONG_WORDS))
    texts = sentences(13, options.pick(300, 6), _NUM_WORDS)
    talks = [" ".join(texts[start : start + 3]) for start in range(0, len(texts), 3)]
    random_players = await _talks_at_random(port, talks)
    in_step_players = await _talks_in_step(port, talks[: len(talks) // 2])
    figures = [
        *_ttfa_figures(ours, theirs),
        *(_cancel_figure(percent, cancels_ms) for percent in (50, 99)),
        *_talk_figures("at random", random_players, target=0),
        *_talk_figures("ten in step", in_step_players, target=None),
    ]
    details = {"socket_ms": ours, "http_ms": theirs, "cancel_ms": cancels_ms}
    return Report("sockets", figures, details)


def _ttfa_figures(ours: list[float], theirs: list[float]) -> list[Figure]:
    return [
        Figure(
            f"first clause to audio, p{percent}",
            percentile(ours, percent),
            "ms",
            percentile(theirs, percent),
            TTFA_TARGET if percent == 50 else None,
            better="lower",
        )
        for percent in (50, 95)
    ]


def _cancel_figure(percent: int, values_ms: list[float]) -> Figure:
    target = CANCEL_TARGET_MS if percent == 99 else None
    value = percentile(values_ms, percent)
    return Figure(f"cancel to last byte, p{percent}", value, "ms", target=target, better="lower")


def _talk_figures(name: str, players: list[Player], target: float | None) -> list[Figure]:
    num_underruns = sum(player.num_underruns for player in players)
    stalled_ms = 1000 * sum(player.stalled_s for player in players)
    name = f"30 tokens/s, {name}"
    return [
        Figure(f"{name}: sessions", len(players), ""),
        Figure(f"{name}: underruns", num_underruns, "", target=target, better="lower"),
        Figure(f"{name}: stalled", stalled_ms, "ms", better="lower"),
    ]


@asynccontextmanager
async def _session(port: int) -> AsyncIterator[ClientConnection]:
    address = f"ws://127.0.0.1:{port}/v1/audio/speech/stream"
    async with connect_socket(address, max_size=None, compression=None) as socket:
        await _say(socket, "session.config", **_CONFIG)
        yield socket


async def _say(socket: ClientConnection, kind: str, **fields: object) -> None:
    await socket.send(json.dumps({"type": kind} | fields))


async def _first_audio(socket: ClientConnection) -> float:
    """When the next audio came."""
    while not isinstance(await socket.recv(), bytes):
        pass
    return time.perf_counter()


async def _until(socket: ClientConnection, kind: str) -> float:
    """When an event of that type came."""
    while True:
        message = await socket.recv()
        if isinstance(message, str) and json.loads(message)["type"] == kind:
            return time.perf_counter()


async def _first_clauses(port: int, clauses: list[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of the socket and of HTTP."""
    http = await connect(port)
    pairs = []
    async with _session(port) as socket:
        for clause in clauses:
            ours_ms = await _first_clause_ms(socket, clause)
            pairs.append((ours_ms, await _http_ms(http, clause)))
    http.abort()
    measured = pairs[_NUM_WARM_UP:]
    return [ours for ours, _ in measured], [theirs for _, theirs in measured]


async def _first_clause_ms(socket: ClientConnection, clause: str) -> float:
    before, _, last_word = clause.rstrip().rpartition(" ")
    await _say(socket, "input.text", text=f"{before} ")
    # The server has taken all of it once it has answered what comes after.
    await _say(socket, "session.update")
    await _until(socket, "session.updated")
    sent_at = time.perf_counter()
    await _say(socket, "input.text", text=f"{last_word} ")
    heard_at = await _first_audio(socket)
    await _say(socket, "input.cancel")
    await _until(socket, "session.done")
    return (heard_at - sent_at) * 1000


async def _http_ms(http: SpeechConnection, text: str) -> float:
    answer = await http.speak(text)
    return answer.ttfa_s * 1000


async def _cancels(port: int, texts: list[str]) -> list[float]:
    """Milliseconds from a cancel, at a random moment after the first audio, to its answer."""
    rng = random.Random(0)
    waits_ms = []
    async with _session(port) as socket:
        for text in texts:
            await _say(socket, "input.text", text=text)
            await _say(socket, "input.flush")
            await _first_audio(socket)
            await asyncio.sleep(rng.random() * _MAX_STAY_S)
            sent_at = time.perf_counter()
            await _say(socket, "input.cancel", played_ms=10)
            waits_ms.append((await _until(socket, "input.cancelled") - sent_at) * 1000)
            await _until(socket, "session.done")
    return waits_ms


async def _talks_at_random(port: int, texts: list[str]) -> list[Player]:
    """The texts, each in a session of its own that begins when it begins."""
    clock = asyncio.get_running_loop()
    started_at = clock.time()
    talks = []
    times = poisson_times(_ARRIVALS_PER_S, float("inf"), seed=14)
    for text, due in zip(texts, times, strict=False):
        await asyncio.sleep(max(0.0, started_at + due - clock.time()))
        talks.append(asyncio.create_task(_talk(port, text)))
    return list(await asyncio.gather(*talks))


async def _talks_in_step(port: int, texts: list[str]) -> list[Player]:
    """The texts, several at the same moment."""
    players: list[Player] = []
    for start in range(0, len(texts), _NUM_AT_ONCE):
        group = texts[start : start + _NUM_AT_ONCE]
        players += await asyncio.gather(*(_talk(port, text) for text in group))
    return players


async def _talk(port: int, text: str) -> Player:
    async with _session(port) as socket:
        player = Player(time.perf_counter())
        writing = asyncio.create_task(_write(socket, text))
        while True:
            message = await socket.recv()
            if isinstance(message, bytes):
                player.feed(time.perf_counter(), message)
            elif json.loads(message)["type"] == "session.done":
                break
        await writing
    return player


async def _write(socket: ClientConnection, text: str) -> None:
    """Token by token at the pace of a language model."""
    clock = asyncio.get_running_loop()
    due = clock.time()
    for start in range(0, len(text), _CHARS_PER_TOKEN):
        due += 1 / _TOKENS_PER_S
        await asyncio.sleep(max(0.0, due - clock.time()))
        await _say(socket, "input.text", text=text[start : start + _CHARS_PER_TOKEN])
    await _say(socket, "input.done")
