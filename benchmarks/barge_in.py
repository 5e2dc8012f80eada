"""Somebody speaks while the server does: from the first voiced frame to the last sound it sends.

Each of a few sessions has a long answer made, of short sentences, so that sound comes several times
a second, and its user speaks up at a random moment. The clock starts when the first chunk that is
louder than silence is sent, and stops at the last audio of the interrupted response that comes.
``to its end`` is later: when the server says that the response is cancelled. "Bare": how much audio
Silero's network needs to find the same words, in a loop.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from benchmarks.bare_ear import BareEar
from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.realtime_client import (
    SILENCE_MS,
    Microphone,
    RealtimeClient,
    realtime,
    said_pcm,
    sound_of,
)
from benchmarks.speech_client import Pcm
from benchmarks.talking_server import talking_server
from benchmarks.texts import sentences

TARGET_MS = 150.0
_CHUNK_MS = 20
_NUM_SESSIONS = 3
# A minute of writing: no interruption comes too late.
_REPLY_SENTENCES, _REPLY_WORDS = 300, 5
_MAX_STAY_S = 1.5
# All beginnings of words are different; so is how soon they are heard as speech.
_WORDS = (
    "Stop, please.", "Hold on a moment.", "No, not that one.", "Actually, wait.", "Excuse me.",
    "Sorry, one more thing.", "What did you say?", "That is enough.", "Thank you, I know.",
    "Can you repeat that?", "Yes, I see.", "Please be quiet.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reaction:
    """Milliseconds from the first voiced frame to the last sound, and to the answer's end."""

    last_sound_ms: float
    end_ms: float


def run(options: Options) -> Report:
    """At least a hundred interruptions."""
    bare = BareLibrary()
    words = [said_pcm(bare, text) for text in _WORDS]
    reply = " ".join(sentences(31, _REPLY_SENTENCES, _REPLY_WORDS))
    num_each, num_sessions = options.pick(36, 1), options.pick(_NUM_SESSIONS, 1)
    with talking_server(options, reply) as server:
        waits = run_async(_interrupt_all(server.port, words, num_each, num_sessions))
    ear = BareEar(SILENCE_MS)
    alone = {text: ear.until_begun_ms(pcm) for text, pcm in zip(_WORDS, words, strict=True)}
    needed = [ms for each in alone.values() for ms in each]
    reactions = [wait for wait in waits if wait is not None]
    sounds = [reaction.last_sound_ms for reaction in reactions]
    ends = [reaction.end_ms for reaction in reactions]
    num_missed = len(waits) - len(reactions)
    figures = [
        Figure("interruptions", len(waits), ""),
        Figure("answers that were not interrupted", num_missed, "", None, 0, "lower"),
        *(_figure("first voiced frame to last sound", p, sounds) for p in (50, 99) if sounds),
        *(_figure("  to the answer's end", p, ends, needed) for p in (50, 99) if ends),
    ]
    details = {"last_sound_ms": sounds, "end_ms": ends, "bare_ms": alone}
    return Report("barge_in", figures, details)


def _figure(
    name: str, percent: int, values: list[float], alone: list[float] | None = None
) -> Figure:
    is_target = percent == 99 and alone is None
    return Figure(
        f"{name}, p{percent}",
        percentile(values, percent),
        "ms",
        None if alone is None else percentile(alone, percent),
        TARGET_MS if is_target else None,
        "lower",
    )


async def _interrupt_all(
    port: int, words: list[Pcm], num_each: int, num_sessions: int
) -> list[_Reaction | None]:
    sessions = [_session(port, words, num_each, number) for number in range(num_sessions)]
    found = await asyncio.gather(*sessions)
    return [wait for waits in found for wait in waits]


async def _session(
    port: int, words: list[Pcm], num_each: int, number: int
) -> list[_Reaction | None]:
    rng = random.Random(number)
    detection = {"create_response": False, "interrupt_response": True}
    async with realtime(port, chunk_ms=_CHUNK_MS, **detection) as (client, microphone):
        await client.write("Tell me a long story.")
        return [
            await _interrupt(client, microphone, words[(i + number) % len(words)], rng)
            for i in range(num_each)
        ]


async def _interrupt(
    client: RealtimeClient, microphone: Microphone, words: Pcm, rng: random.Random
) -> _Reaction | None:
    """What came of speaking up; None if the answer was not interrupted."""
    begin = len(client.events)
    await client.send("response.create")
    number, _, _ = await client.until("response.output_audio.delta", after=begin)
    await asyncio.sleep(rng.random() * _MAX_STAY_S)
    said = microphone.say(words)
    number, done_at, done = await client.until("response.done", after=number)
    if done["response"]["status"] != "cancelled":
        return None
    await client.until("input_audio_buffer.speech_stopped", after=begin)
    begun_at = microphone.sent_at(said.first_loud)
    last_at = max(at for at, event in client.events[begin:] if sound_of(event))
    return _Reaction(1000 * max(last_at - begun_at, 0.0), 1000 * (done_at - begun_at))
