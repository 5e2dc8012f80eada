"""What makes each voice another one, and how loud and how well understood it is.

``python -m benchmarks.voices``. Every voice reads the sentences of the word error benchmark through
the whole server; the bare library reads them as the reference of the word error rate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report, as_json, as_table, write_json
from benchmarks.options import Options, run_async
from benchmarks.processes import describe_machine
from benchmarks.recogniser import Recogniser
from benchmarks.server_process import running_server
from benchmarks.speech_client import SAMPLE_RATE, speak_all
from benchmarks.voice_measures import envelope_db, formant_shift, loudness_lufs, median_f0_hz
from benchmarks.wer import answer_as_float, hear_all
from benchmarks.wer_sentences import SENTENCES
from engine.pipeline import Voice, load_pipeline, load_voices

FloatArray = npt.NDArray[np.float32]

RESULTS = Path(__file__).parent / "results"

_SEED = 7
_CONCURRENCY = 4
_MAX_LOUDNESS_LU = 1.0
_MAX_ADDED_WER_PERCENT = 2.0
# Samples at the limits of int16, where speech does not stay without having been clipped.
_FULL_SCALE = 32766 / 32768


@dataclass(frozen=True, slots=True)
class VoiceFigures:
    """One voice. ``formant_shift`` is the factor on the first voice's formants."""

    id: str
    gender: str
    aliases: tuple[str, ...]
    median_f0_hz: float
    formant_shift: float
    words_per_minute: float
    loudness_lufs: float
    peak: float
    num_clipped: int
    wer_percent: float


def run(options: Options) -> Report:
    """All listed voices, the first of which is the original."""
    sentences = SENTENCES[: options.pick(len(SENTENCES), 2)]
    texts = [spellings[0] for spellings in sentences]
    voices = load_voices(load_pipeline(options.pipeline))[: options.pick(100, 2)]
    spoken = _speak(options.pipeline, voices, texts)
    recogniser = Recogniser()
    original = envelope_db(np.concatenate(spoken[0]), SAMPLE_RATE)
    rows = []
    for voice, pieces in zip(voices, spoken, strict=True):
        wer_percent = hear_all(recogniser, pieces, sentences).wer_percent
        rows.append(_measure(voice, pieces, texts, original, wer_percent))
        print(_line(rows[-1]), file=sys.stderr, flush=True)
    bare = BareLibrary()
    bare_wer = hear_all(recogniser, [bare.speak(text) for text in texts], sentences).wer_percent
    return _report(rows, bare_wer)


def _speak(pipeline: str, voices: Sequence[Voice], texts: list[str]) -> list[list[FloatArray]]:
    """What each voice says, one array per text."""
    with running_server(pipeline) as server:
        answers = [
            run_async(
                speak_all(server.port, texts, _CONCURRENCY, keep=True, seed=_SEED, voice=voice.id)
            )
            for voice in voices
        ]
    return [[answer_as_float(answer) for answer in each] for each in answers]


def _measure(
    voice: Voice,
    pieces: list[FloatArray],
    texts: list[str],
    original: npt.NDArray[np.float64],
    wer_percent: float,
) -> VoiceFigures:
    audio = np.concatenate(pieces)
    num_words = sum(len(text.split()) for text in texts)
    return VoiceFigures(
        id=voice.id,
        gender=voice.gender,
        aliases=voice.aliases,
        median_f0_hz=median_f0_hz(audio, SAMPLE_RATE),
        formant_shift=formant_shift(original, envelope_db(audio, SAMPLE_RATE)),
        words_per_minute=60 * num_words * SAMPLE_RATE / len(audio),
        loudness_lufs=loudness_lufs(audio, SAMPLE_RATE),
        peak=float(np.abs(audio).max()),
        num_clipped=int((np.abs(audio) >= _FULL_SCALE).sum()),
        wer_percent=wer_percent,
    )


def _report(rows: list[VoiceFigures], bare_wer: float) -> Report:
    levels = [row.loudness_lufs for row in rows]
    middle = (max(levels) + min(levels)) / 2
    worst = max(row.wer_percent for row in rows)
    figures = [
        Figure("voices", len(rows), ""),
        Figure("loudness, middle", middle, "LUFS"),
        Figure(
            "loudness, furthest from the middle",
            max(levels) - middle,
            "LU",
            target=_MAX_LOUDNESS_LU,
            better="lower",
        ),
        Figure("WER, original voice", rows[0].wer_percent, "%", bare_wer),
        Figure(
            "WER, worst voice beyond the library's",
            worst - bare_wer,
            "points",
            target=_MAX_ADDED_WER_PERCENT,
            better="lower",
        ),
        Figure("clipped samples", sum(row.num_clipped for row in rows), ""),
    ]
    return Report("voices", figures, {"voices": [asdict(row) for row in rows]})


def _line(row: VoiceFigures) -> str:
    return (
        f"{row.id:10} {row.gender:8} F0 {row.median_f0_hz:4.0f} Hz  "
        f"formants x{row.formant_shift:.2f}  {row.words_per_minute:4.0f} words/min  "
        f"{row.loudness_lufs:6.2f} LUFS  peak {row.peak:.2f}  clipped {row.num_clipped:3}  "
        f"WER {row.wer_percent:.2f} %"
    )


def main() -> None:
    """Print the table and keep the figures in ``results/voices.json``."""
    report = run(Options())
    write_json(RESULTS / "voices.json", as_json(report, describe_machine()))
    print(as_table([report]))


if __name__ == "__main__":
    main()
