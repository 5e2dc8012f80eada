"""Twenty people talk with the server at once: real-time audio in both directions.

Each says a sentence of four seconds, hears the answer to its end on a player that began at its
first audio and holds nothing back, rests for a moment, and says the next. Microphones never stop.
A turn is missed if it gets no spoken answer; it is torn if the server found more or fewer turns
than were spoken. The language model is a script in a process of its own.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.loop_lag import bound_of, lags_of
from benchmarks.options import Options, run_async
from benchmarks.player import Player
from benchmarks.processes import CpuMeter
from benchmarks.quantiles import percentile
from benchmarks.realtime_client import Microphone, RealtimeClient, realtime, sound_of
from benchmarks.speech_client import Pcm
from benchmarks.talking_server import talking_server
from benchmarks.voice_to_voice import REPLY, spoken_turns

LAG_TARGET_MS = 20.0
_NUM_TALKERS, _WINDOW_S = 20, 90
_NUM_SENTENCES = 24
# What a browser's recorder usually gives at once.
_CHUNK_MS = 100
_REST_S = (0.5, 2.5)
# Ten times what an answer takes when nobody else talks.
_PATIENCE_S = 10.0


@dataclass(slots=True)
class _Talk:
    """What one talker got. ``waits_ms``: from the end of speech to the first audio."""

    num_turns: int = 0
    num_missed: int = 0
    num_found: int = 0
    waits_ms: list[float] = field(default_factory=list)
    players: list[Player] = field(default_factory=list)


def run(options: Options) -> Report:
    """One conversation each, all at the same time."""
    bare = BareLibrary()
    speech = spoken_turns(bare, 41, options.pick(_NUM_SENTENCES, 2))
    num_talkers, window_s = options.pick(_NUM_TALKERS, 2), options.pick(_WINDOW_S, 3)
    with talking_server(options, REPLY) as talking:
        before, meter = lags_of(talking.server), CpuMeter(talking.pids)
        talks = run_async(_talk_all(talking.port, speech, num_talkers, window_s))
        cpu = meter.stop()
        lags = {bound: num - before[bound] for bound, num in lags_of(talking.server).items()}
    players = [player for talk in talks for player in talk.players]
    waits = [wait for talk in talks for wait in talk.waits_ms]
    figures = [
        Figure("talkers", num_talkers, ""),
        Figure("turns", sum(talk.num_turns for talk in talks), ""),
        _zero("missed", sum(talk.num_missed for talk in talks)),
        _zero("torn", sum(abs(talk.num_found - talk.num_turns) for talk in talks)),
        _zero("underruns", sum(player.num_underruns for player in players)),
        Figure("stalled", 1000 * sum(p.stalled_s for p in players), "ms", better="lower"),
        *(_wait_figure(percent, waits) for percent in (50, 95) if waits),
        Figure(
            "event-loop lag, p99 (at most)",
            1000 * bound_of(lags, 99),
            "ms",
            target=LAG_TARGET_MS,
            better="lower",
        ),
        Figure("used by other programs meanwhile", cpu.others_cores, "cores", better="lower"),
    ]
    cores = {name: used / cpu.wall_s for name, used in cpu.by_name.items()}
    return Report("talkers", figures, {"waits_ms": waits, "cores": cores})


def _zero(name: str, value: int) -> Figure:
    return Figure(name, value, "", target=0, better="lower")


def _wait_figure(percent: int, waits_ms: list[float]) -> Figure:
    name = f"voice to voice, p{percent}"
    return Figure(name, percentile(waits_ms, percent), "ms", better="lower")


async def _talk_all(port: int, speech: list[Pcm], num_talkers: int, window_s: float) -> list[_Talk]:
    until = time.monotonic() + window_s
    return await asyncio.gather(*(_talk(port, speech, i, until) for i in range(num_talkers)))


async def _talk(port: int, speech: list[Pcm], number: int, until: float) -> _Talk:
    """Turns until the window is over; the last is heard to its end."""
    rng = random.Random(number)
    talk = _Talk()
    async with realtime(port, chunk_ms=_CHUNK_MS) as (client, microphone):
        while time.monotonic() < until:
            await asyncio.sleep(rng.uniform(*_REST_S))
            await _turn(client, microphone, rng.choice(speech), talk)
        kinds = [event["type"] for _, event in client.events]
    talk.num_found = kinds.count("input_audio_buffer.committed")
    return talk


async def _turn(client: RealtimeClient, microphone: Microphone, speech: Pcm, talk: _Talk) -> None:
    """Say something, and play the answer."""
    begin = len(client.events)
    said = microphone.say(speech)
    ended_at = microphone.recorded_at(said.last_loud)
    player = Player(ended_at)

    def play(at: float, event: dict[str, Any]) -> None:
        if data := sound_of(event):
            player.feed(at, data)

    client.on_event = play
    talk.num_turns += 1
    try:
        async with asyncio.timeout(ended_at - time.monotonic() + _PATIENCE_S):
            number, heard_at, _ = await client.until("response.output_audio.delta", after=begin)
    except TimeoutError:
        talk.num_missed += 1
        return
    await client.until("response.done", after=number)
    talk.waits_ms.append(1000 * (heard_at - ended_at))
    talk.players.append(player)
    await asyncio.sleep(max(player.ends_at - time.monotonic(), 0.0))
