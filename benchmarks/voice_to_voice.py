"""From the end of what somebody says to the first sound of the answer, and where the time goes.

One realtime session whose microphone runs all the time; the language model is a script in a process
of its own. Each moment between the end of speech and the first audio is laid to whoever was at work
then, by the times of the socket's events, of the stages' steps (the server's log at debug level)
and of the script's own tokens. What is left is the pipeline's own.

    end of speech ── silence ──> turn is over ── recognition ──> request to the language model
    ── first token ──> ── first sentence ──> read and spoken ──> first audio

"Bare": Silero's network in a loop, faster-whisper and hibari-tts in this process, one after the
other, with the same sentences.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np

from benchmarks.bare_ear import BareEar
from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.quantiles import percentile
from benchmarks.realtime_client import SILENCE_MS, Microphone, RealtimeClient, realtime, said_pcm
from benchmarks.recogniser import Recogniser
from benchmarks.speech_client import SAMPLE_RATE, Pcm, as_float
from benchmarks.talking_server import Step, busy_s, talking_server
from benchmarks.texts import sentences
from tests.scripted_llm import tokens_of
from worker.models.hibari.text.sentences import SentenceSplitter

TARGET_MS, OWN_TARGET_MS = 1000.0, 30.0
REPLY = (
    "Let me look that up for you. The next train leaves at half past nine, and it stops "
    "near the river."
)
_NUM_WARM_UP = 2
_CHUNK_MS = 20
# Spoken by the default voice in four seconds.
_NUM_WORDS = 15
# Three frames of Silero's network: how long a pause is depends on what came before.
_MARGIN_MS = 100
# A user listens, and thinks.
_REST_SAMPLES = SAMPLE_RATE


@dataclass(frozen=True, slots=True)
class Parts:
    """What one answer waited for, in milliseconds."""

    silence: float
    detection: float
    recognition: float
    first_token: float
    first_sentence: float
    synthesis: float
    own: float


@dataclass(frozen=True, slots=True)
class _Turn:
    """Times of a turn: the end of speech, the sending of the chunk that ended it, first audio."""

    speech_ended_at: float
    end_sent_at: float
    first_audio_at: float


def run(options: Options) -> Report:
    """Turn after turn in one session."""
    bare = BareLibrary()
    speech = spoken_turns(bare, 21, options.pick(30, 1) + _NUM_WARM_UP)
    with talking_server(options, REPLY) as server:
        turns = run_async(_talk(server.port, speech))
        thoughts, steps = server.llm.times(), server.steps()
    parts = [_parts(turn, thoughts, steps) for turn in turns[_NUM_WARM_UP:]]
    totals = [1000 * (turn.first_audio_at - turn.speech_ended_at) for turn in turns[_NUM_WARM_UP:]]
    alone = _bare(bare, speech[_NUM_WARM_UP:])
    length_s = percentile([len(pcm) / SAMPLE_RATE for pcm in speech], 50)
    figures = [
        Figure("turn, p50", length_s, "s"),
        Figure("voice to voice, p50", percentile(totals, 50), "ms", None, TARGET_MS, "lower"),
        Figure("voice to voice, p95", percentile(totals, 95), "ms", better="lower"),
        *(_part_figure(name, parts, alone.get(name)) for name in _names()),
    ]
    return Report("voice_to_voice", figures, {"ms": totals, "parts": parts_as_dicts(parts)})


def spoken_turns(bare: BareLibrary, seed: int, num_turns: int) -> list[Pcm]:
    """Sentences said in one breath: without a pause that could be taken for a turn's end."""
    ear = BareEar(SILENCE_MS - _MARGIN_MS)
    texts = sentences(seed, 2 * num_turns + 10, _NUM_WORDS)
    said = (said_pcm(bare, text.replace(",", "")) for text in texts)
    return list(islice((pcm for pcm in said if ear.num_turns(pcm) == 1), num_turns))


def parts_as_dicts(parts: list[Parts]) -> list[dict[str, float]]:
    return [{name: getattr(part, name) for name in _names()} for part in parts]


def _names() -> list[str]:
    return [field.name for field in fields(Parts)]


def _part_figure(name: str, parts: list[Parts], alone_ms: float | None) -> Figure:
    value = percentile([getattr(part, name) for part in parts], 50)
    if name == "own":
        return Figure("  the pipeline's own, p50", value, "ms", None, OWN_TARGET_MS, "lower")
    return Figure(f"  {name.replace('_', ' ')}, p50", value, "ms", alone_ms, better="lower")


async def _talk(port: int, speech: list[Pcm]) -> list[_Turn]:
    async with realtime(port, chunk_ms=_CHUNK_MS) as (client, microphone):
        return [await _turn(client, microphone, pcm) for pcm in speech]


async def _turn(client: RealtimeClient, microphone: Microphone, speech: Pcm) -> _Turn:
    begin = len(client.events)
    said = microphone.say(np.concatenate([np.zeros(_REST_SAMPLES, np.int16), speech]))
    number, end = begin, 0
    while end <= said.last_loud:
        number, _, stopped = await client.until(
            "input_audio_buffer.speech_stopped", after=number + 1
        )
        end = stopped["audio_end_ms"] * SAMPLE_RATE // 1000
    _, heard_at, _ = await client.until("response.output_audio.delta", after=number)
    await client.until("response.done", after=number)
    ended_at = microphone.recorded_at(said.last_loud)
    return _Turn(ended_at, microphone.sent_at(end - 1), heard_at)


def _parts(turn: _Turn, thoughts: list[dict[str, Any]], steps: list[Step]) -> Parts:
    thought = max(
        (t for t in thoughts if t["asked_at"] < turn.first_audio_at), key=lambda t: t["asked_at"]
    )
    asked_at = thought["asked_at"]
    first_token_at = thought["tokens_at"][0]
    sentence_at = thought["tokens_at"][_num_tokens_to_a_sentence() - 1]
    # The microphone goes on, and so do the steps that look at what it sends.
    looking = next(s for s in steps if s.stage == "vad" and s.ended_at > turn.end_sent_at)
    seconds = {
        "silence": turn.end_sent_at - turn.speech_ended_at,
        "detection": busy_s([looking], ("vad",), turn.end_sent_at, asked_at),
        "recognition": busy_s(steps, ("whisper",), turn.end_sent_at, asked_at),
        "first_token": first_token_at - asked_at,
        "first_sentence": sentence_at - first_token_at,
        "synthesis": busy_s(steps, ("read", "speak"), sentence_at, turn.first_audio_at),
    }
    own = turn.first_audio_at - turn.speech_ended_at - sum(seconds.values())
    return Parts(**{name: 1000 * value for name, value in seconds.items()}, own=1000 * own)


def _num_tokens_to_a_sentence() -> int:
    """After how many tokens of the reply its first sentence is known to be whole."""
    splitter = SentenceSplitter()
    for number, token in enumerate(tokens_of(REPLY), start=1):
        if splitter.feed(token):
            return number
    raise AssertionError("the reply has two sentences")


def _bare(bare: BareLibrary, speech: list[Pcm]) -> dict[str, float]:
    """The parts alone, p50 in milliseconds, under the names of ``Parts``."""
    recogniser, ear = Recogniser(beam_size=1), BareEar(SILENCE_MS)
    recogniser.hear(as_float(speech[0]), SAMPLE_RATE)
    recognised = [_timed_ms(recogniser, pcm) for pcm in speech]
    spoken = [1000 * bare.ttfa_s(REPLY) for _ in speech]
    return {
        "silence": percentile([ear.until_ended_ms(pcm) for pcm in speech], 50),
        "recognition": percentile(recognised, 50),
        "synthesis": percentile(spoken, 50),
    }


def _timed_ms(recogniser: Recogniser, pcm: Pcm) -> float:
    started = time.perf_counter()
    recogniser.hear(as_float(pcm), SAMPLE_RATE)
    return 1000 * (time.perf_counter() - started)
