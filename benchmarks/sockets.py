"""The speech socket as a voice agent uses it: text token by token, and interruptions.

``first clause``: from the sending of the first clause's last token to the first audio, beside the
time to first audio over HTTP for the same words; the two take turns. ``cancel``: from the sending
of a cancel to its answer, after which no audio comes. ``30 tokens/s``: as a language model writes,
several sessions at once, each with a player that began at the first audio; they begin at random
times, or, which is harder, ten of them at the same moment and in step. ``pause``: the silence
between two sentences as that player played it, beside the one in the audio of the same text over
HTTP, both found by their energy.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import time
import urllib.request
import wave

from websockets.asyncio.client import ClientConnection

from benchmarks.arrivals import poisson_times
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.server_process import running_server
from benchmarks.silence import Word, pauses
from benchmarks.socket_client import Talk, first_audio, say, session, talk, until
from benchmarks.speech_client import SAMPLE_RATE, SpeechConnection, connect
from benchmarks.texts import sentences

# The bounds on the ratio of the medians, on the 99th percentile in ms, and in ms on how far a pause
# may be from the natural one. (Behind a sentence that was cut into clauses it is as long as the
# voice makes it behind the last clause alone.)
TTFA_TARGET, CANCEL_TARGET_MS, PAUSE_TARGET_MS = 1.2, 50.0, 30.0
# A clause without another one in it.
_NUM_CLAUSE_WORDS = 9
_NUM_WORDS = 20
_NUM_LONG_WORDS = 100
_NUM_WARM_UP = 3
_NUM_AT_ONCE = 10
# A session is written in about six seconds: ten or so are being written at any time.
_ARRIVALS_PER_S = 1.5
_NUM_SENTENCES = 3
_NUM_PAUSED = 30
_MAX_STAY_S = 0.08


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
    num_talks = options.pick(100, 2)
    texts = sentences(13, num_talks * _NUM_SENTENCES, _NUM_WORDS)
    paragraphs = [" ".join(texts[start::num_talks]) for start in range(num_talks)]
    at_random = await _talks_at_random(port, paragraphs)
    in_step = await _talks_in_step(port, paragraphs)
    read = [await asyncio.to_thread(_natural_pauses, port, t) for t in paragraphs[:_NUM_PAUSED]]
    figures = [
        *_ttfa_figures(ours, theirs),
        *(_cancel_figure(percent, cancels_ms) for percent in (50, 99)),
        *_talk_figures("at random", at_random),
        *_talk_figures("ten in step", in_step),
        *_pause_figures(list(map(_played_pauses, at_random, paragraphs)), read),
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


def _talk_figures(name: str, talks: list[Talk]) -> list[Figure]:
    num_underruns = sum(heard.player.num_underruns for heard in talks)
    stalled_ms = 1000 * sum(heard.player.stalled_s for heard in talks)
    name = f"30 tokens/s, {name}"
    return [
        Figure(f"{name}: sessions", len(talks), ""),
        Figure(f"{name}: underruns", num_underruns, "", target=0, better="lower"),
        Figure(f"{name}: stalled", stalled_ms, "ms", better="lower"),
    ]


def _pause_figures(played: list[list[float]], natural: list[list[float]]) -> list[Figure]:
    """None where the words cannot be told apart, as with tones."""
    pairs = [
        pair
        for ours, theirs in zip(played, natural, strict=False)
        for pair in zip(ours, theirs, strict=True)
    ]
    if not pairs:
        return []
    differences_ms = [abs(ours - theirs) * 1000 for ours, theirs in pairs]
    return [
        Figure(
            "pause between sentences, p50",
            percentile([ours * 1000 for ours, _ in pairs], 50),
            "ms",
            percentile([theirs * 1000 for _, theirs in pairs], 50),
        ),
        Figure(
            f"{len(pairs)} pauses: off the natural one, p95",
            percentile(differences_ms, 95),
            "ms",
            target=PAUSE_TARGET_MS,
            better="lower",
        ),
        Figure("the furthest", max(differences_ms), "ms", better="lower"),
    ]


def _played_pauses(heard: Talk, text: str) -> list[float]:
    """The pauses of a talk in seconds, with what its player had to wait in them."""
    return [
        pause.silent_s + sum(s for at, s in heard.stalls if pause.first <= at < pause.last)
        for pause in pauses(heard.pcm, heard.words, text)
    ]


def _natural_pauses(port: int, text: str) -> list[float]:
    """The pauses in seconds when the whole text is given at once."""
    fields = {"input": text, "response_format": "wav", "timestamp_granularities": ["word"]}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/audio/speech",
        data=json.dumps(fields).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    with wave.open(io.BytesIO(base64.b64decode(answer["audio"]))) as file:
        assert file.getframerate() == SAMPLE_RATE, "the pipeline's own rate"
        pcm = file.readframes(file.getnframes())
    keys = ("start_ms", "end_ms", "start_char", "end_char")
    words = [Word(*(word[key] for key in keys)) for word in answer["words"]]
    return [pause.silent_s for pause in pauses(pcm, words, text)]


async def _first_clauses(port: int, clauses: list[str]) -> tuple[list[float], list[float]]:
    """Milliseconds of the socket and of HTTP."""
    http = await connect(port)
    pairs = []
    async with session(port) as socket:
        for clause in clauses:
            ours_ms = await _first_clause_ms(socket, clause)
            pairs.append((ours_ms, await _http_ms(http, clause)))
    http.abort()
    measured = pairs[_NUM_WARM_UP:]
    return [ours for ours, _ in measured], [theirs for _, theirs in measured]


async def _first_clause_ms(socket: ClientConnection, clause: str) -> float:
    before, _, last_word = clause.rstrip().rpartition(" ")
    await say(socket, "input.text", text=f"{before} ")
    # The server has taken all of it once it has answered what comes after.
    await say(socket, "session.update")
    await until(socket, "session.updated")
    sent_at = time.perf_counter()
    await say(socket, "input.text", text=f"{last_word} ")
    heard_at = await first_audio(socket)
    await say(socket, "input.cancel")
    await until(socket, "session.done")
    return (heard_at - sent_at) * 1000


async def _http_ms(http: SpeechConnection, text: str) -> float:
    answer = await http.speak(text)
    return answer.ttfa_s * 1000


async def _cancels(port: int, texts: list[str]) -> list[float]:
    """Milliseconds from a cancel, at a random moment after the first audio, to its answer."""
    rng = random.Random(0)
    waits_ms = []
    async with session(port) as socket:
        for text in texts:
            await say(socket, "input.text", text=text)
            await say(socket, "input.flush")
            await first_audio(socket)
            await asyncio.sleep(rng.random() * _MAX_STAY_S)
            sent_at = time.perf_counter()
            await say(socket, "input.cancel", played_ms=10)
            waits_ms.append((await until(socket, "input.cancelled") - sent_at) * 1000)
            await until(socket, "session.done")
    return waits_ms


async def _talks_at_random(port: int, texts: list[str]) -> list[Talk]:
    """The texts, each in a session of its own that begins when it begins."""
    clock = asyncio.get_running_loop()
    started_at = clock.time()
    talks = []
    times = poisson_times(_ARRIVALS_PER_S, float("inf"), seed=14)
    for text, due in zip(texts, times, strict=False):
        await asyncio.sleep(max(0.0, started_at + due - clock.time()))
        talks.append(asyncio.create_task(_talk(port, text)))
    return list(await asyncio.gather(*talks))


async def _talks_in_step(port: int, texts: list[str]) -> list[Talk]:
    """The texts, several at the same moment."""
    talks: list[Talk] = []
    for start in range(0, len(texts), _NUM_AT_ONCE):
        group = texts[start : start + _NUM_AT_ONCE]
        talks += await asyncio.gather(*(_talk(port, text) for text in group))
    return talks


async def _talk(port: int, text: str) -> Talk:
    async with session(port) as socket:
        return await talk(socket, text)
