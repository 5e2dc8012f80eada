"""Word error rate of the server, one at a time and at concurrency 16, beside the library's."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options, run_async
from benchmarks.recogniser import Recogniser
from benchmarks.server_process import running_server
from benchmarks.speech_client import SAMPLE_RATE, Answer, speak_all
from benchmarks.wer_sentences import SENTENCES
from benchmarks.word_errors import fewest_errors

CONCURRENCY = 16
# Of two answers with one seed, at different loads, the bytes must be equal too.
SEED = 7

Spellings = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Heard:
    """One sentence as it was heard. ``nearest`` is the index of the sentence it resembles most."""

    said: str
    heard: str
    num_errors: int
    num_words: int
    nearest: int


@dataclass(frozen=True, slots=True)
class Hearing:
    """All sentences of one source."""

    sentences: list[Heard]

    @property
    def wer_percent(self) -> float:
        num_words = sum(one.num_words for one in self.sentences)
        return 100 * sum(one.num_errors for one in self.sentences) / num_words

    @property
    def num_mismatched(self) -> int:
        """Answers that resemble another text more than their own."""
        return sum(one.nearest != index for index, one in enumerate(self.sentences))


def run(options: Options) -> Report:
    """The same sentences from the library, the quiet server and the busy server."""
    sentences = SENTENCES[: options.pick(len(SENTENCES), 2)]
    texts = [spellings[0] for spellings in sentences]
    bare = BareLibrary()
    with running_server(options.pipeline) as server:
        alone = run_async(speak_all(server.port, texts, 1, keep=True, seed=SEED))
        busy = run_async(speak_all(server.port, texts, CONCURRENCY, keep=True, seed=SEED))
    recogniser = Recogniser()
    hearings = {
        "bare": hear_all(recogniser, [bare.speak(text) for text in texts], sentences),
        "server": hear_all(recogniser, [answer_as_float(answer) for answer in alone], sentences),
        "busy": hear_all(recogniser, [answer_as_float(answer) for answer in busy], sentences),
    }
    pairs = zip(alone, busy, strict=True)
    num_unequal = sum(b"".join(one.pcm) != b"".join(other.pcm) for one, other in pairs)
    return _report(hearings, num_unequal)


def hear_all(
    recogniser: Recogniser, audio: list[npt.NDArray[np.float32]], sentences: tuple[Spellings, ...]
) -> Hearing:
    """Write down each piece of audio (float32 [samples], 24 kHz) and count the errors."""
    heard = [recogniser.hear(piece, SAMPLE_RATE) for piece in audio]
    return Hearing([judge(text, index, sentences) for index, text in enumerate(heard)])


def judge(heard: str, index: int, sentences: tuple[Spellings, ...]) -> Heard:
    """Compare what was heard with sentence ``index`` and with all others."""
    counts = [fewest_errors(spellings, heard) for spellings in sentences]
    # As a share of the words said, or a short sentence would resemble everything.
    shares = [num_errors / num_words for num_errors, num_words in counts]
    nearest = index if shares[index] == min(shares) else shares.index(min(shares))
    return Heard(sentences[index][0], heard, *counts[index], nearest)


def answer_as_float(answer: Answer) -> npt.NDArray[np.float32]:
    """The audio as float32 [samples]. Raises ``RuntimeError`` if the answer is not whole."""
    if not answer.is_ok:
        raise RuntimeError(f"status {answer.status} for {answer.text!r}")
    return np.frombuffer(b"".join(answer.pcm), np.int16).astype(np.float32) / np.float32(32768)


def _report(hearings: dict[str, Hearing], num_unequal: int) -> Report:
    bare, server, busy = (hearings[name] for name in ("bare", "server", "busy"))
    figures = [
        Figure("WER, one at a time", server.wer_percent, "%", bare.wer_percent, 1.0, "lower"),
        Figure("WER, concurrency 16", busy.wer_percent, "%", bare.wer_percent, 1.0, "lower"),
        Figure(
            "answers to another's text, concurrency 16",
            busy.num_mismatched,
            "",
            target=0,
            better="lower",
        ),
        Figure("seeded answers whose bytes differ", num_unequal, "", target=0, better="lower"),
    ]
    details: dict[str, Any] = {
        name: [asdict(one) for one in hearing.sentences if one.num_errors]
        for name, hearing in hearings.items()
    }
    return Report("wer", figures, details)
