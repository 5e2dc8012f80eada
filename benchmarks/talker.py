"""How well the shipped talker speaks: its own way beside its teacher, and how far style moves it.

Its tokens are written by a plain loop (``two_passes.py``), not by vLLM: speed is not measured here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.bare_library import BareLibrary
from benchmarks.figures import Figure, Report
from benchmarks.options import Options
from benchmarks.recogniser import Recogniser
from benchmarks.texts import sentences as make_sentences
from benchmarks.two_passes import TwoPasses, shipped_weights
from benchmarks.wer import hear_all
from benchmarks.wer_sentences import SENTENCES
from worker.models.hibari.acoustic import Code2Wav
from worker.models.hibari.contour_net import ContourNet
from worker.models.hibari.graphs import read_voice
from worker.models.hibari.prosody_net import ProsodyNet, bundled_voice
from worker.models.hibari.shape import VOICED_HZ
from worker.models.hibari.text.draft import Span
from worker.models.hibari.text.phonemes import Phonemizer
from worker.models.hibari.text.sentences import Sentence
from worker.models.hibari_talker.prosody import Piece, ProsodyStream, Rhythm
from worker.models.hibari_talker.tokens import Style

SCALES = (1.0, 2.0, 3.0, 5.0)
NUM_STYLED = 48
NUM_HEARD = 60
_SEED = 5

STYLES = {
    "slow": Style(rate=-2),
    "fast": Style(rate=2),
    "high": Style(pitch=2),
    "low": Style(pitch=-2),
    "flat": Style(liveliness=-2),
    "lively": Style(liveliness=2),
    "a bit slow": Style(rate=-1),
    "a bit fast": Style(rate=1),
    "a bit high": Style(pitch=1),
    "a bit low": Style(pitch=-1),
}
# By style: what is measured, the bound at scale 1 and at 5, and whether more is right.
TARGETS = {
    "slow": ("length", 1.10, 1.30, "higher"),
    "fast": ("length", 0.88, 0.74, "lower"),
    "high": ("semitones", 2.0, 4.0, "higher"),
    "low": ("semitones", -1.0, -3.0, "lower"),
}
UNITS = {"length": "x neutral", "semitones": "st", "spread": "x neutral"}
MEASURES = {"flat": "spread", "lively": "spread", "a bit high": "semitones"} | {
    "a bit low": "semitones",
    "high": "semitones",
    "low": "semitones",
}

Ids = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Spoken:
    """Means over sentences, each beside the neutral one: factors, and semitones."""

    length: float
    semitones: float
    spread: float


class Voice:
    """hibari's default voice, fed with tokens."""

    def __init__(self) -> None:
        graph = read_voice(bundled_voice())
        self.teacher = ProsodyNet(graph)
        self._net = ContourNet(graph)
        self._code2wav = Code2Wav(graph)

    def prosody(self, ids: Ids, tokens: Sequence[int]) -> Piece:
        """Of a whole sentence, as the pipeline makes it."""
        rhythm = Rhythm(ids.size, 1.0)
        stream = ProsodyStream(rhythm, self._net, self._net, ids)
        rhythm.push(tokens)
        pieces = list(iter(stream.take, None))
        return Piece(
            np.concatenate([piece.durations for piece in pieces]),
            np.concatenate([piece.f0 for piece in pieces]),
            np.concatenate([piece.energy for piece in pieces]),
        )

    def speak(self, ids: Ids, tokens: Sequence[int]) -> FloatArray:
        piece = self.prosody(ids, tokens)
        stream = self._code2wav.open(ids, piece.durations, piece.f0, piece.energy, seed=_SEED)
        return stream.step(stream.num_frames)


def run(options: Options) -> Report:
    """Neutral speech, then every style at every scale."""
    talker, voice = TwoPasses(shipped_weights()), Voice()
    figures = [_exactness(options), *_word_errors(talker, voice, options)]
    ids = [phonemes(text)[0] for text in _styled_texts(options.pick(NUM_STYLED, 2))]
    spoken = {
        name: {scale: _style(talker, voice, ids, style, scale) for scale in SCALES}
        for name, style in STYLES.items()
    }
    figures += [figure for name, by_scale in spoken.items() for figure in _moves(name, by_scale)]
    return Report("talker", figures)


def phonemes(text: str) -> list[Ids]:
    """Phoneme ids of a sentence, in chunks that the talker takes."""
    chunks = _phonemizer().chunks(Sentence(text, Span(0, len(text)), True))
    return [chunk.ids for chunk in chunks]


_PHONEMIZERS: list[Phonemizer] = []


def _phonemizer() -> Phonemizer:
    if not _PHONEMIZERS:
        _PHONEMIZERS.append(Phonemizer())
    return _PHONEMIZERS[0]


def _styled_texts(count: int) -> list[str]:
    long = [spellings[0] for spellings in SENTENCES if len(spellings[0].split()) >= 8]
    return (long + make_sentences(3, NUM_STYLED, 12))[:count]


def _heard_sentences(count: int) -> tuple[tuple[str, ...], ...]:
    more = tuple((text,) for text in make_sentences(4, NUM_HEARD - len(SENTENCES), 14))
    return (SENTENCES + more)[:count]


def _exactness(options: Options) -> Figure:
    """How many durations are the teacher's, each after the teacher's own tokens."""
    import torch
    from safetensors.torch import load_file

    from worker.models.hibari_talker.train.net import Net, Shape
    from worker.models.hibari_talker.train.score import score_neutral
    from worker.models.hibari_talker.train.teacher import Teacher

    torch.set_num_threads(1)
    teacher = Teacher()
    texts = [spellings[0] for spellings in _heard_sentences(options.pick(NUM_HEARD, 2))]
    lessons = [teacher.speak(ids) for text in texts for ids in phonemes(text)]
    weights = load_file(shipped_weights() / "model.safetensors")
    net = Net({name: weight.float() for name, weight in weights.items()}, Shape())
    score = score_neutral(net, lessons)
    return Figure("durations exact, teacher-forced", score.duration_exact, "", target=0.85)


def _word_errors(talker: TwoPasses, voice: Voice, options: Options) -> list[Figure]:
    said = _heard_sentences(options.pick(NUM_HEARD, 2))
    bare, recogniser = BareLibrary(), Recogniser()
    ids = [phonemes(spellings[0])[0] for spellings in said]
    tokens = talker.write([each.tolist() for each in ids], Style(), 1.0, _SEED)
    audio = [voice.speak(*pair) for pair in zip(ids, tokens, strict=True)]
    ours = hear_all(recogniser, audio, said).wer_percent
    theirs = hear_all(recogniser, [bare.speak(one[0]) for one in said], said).wer_percent
    return [
        Figure("word errors, neutral", ours, "%", theirs),
        Figure("word errors beyond bare", ours - theirs, "points", target=2.0, better="lower"),
    ]


def _style(
    talker: TwoPasses, voice: Voice, sentences: list[Ids], style: Style, scale: float
) -> Spoken:
    tokens = talker.write([ids.tolist() for ids in sentences], style, scale, _SEED)
    rows = []
    for ids, written in zip(sentences, tokens, strict=True):
        own, bent = voice.teacher.run(ids, 1.0), voice.prosody(ids, written)
        heights = [_semitones(own.f0), _semitones(bent.f0)]
        rows.append(
            (
                bent.durations.sum() / own.durations.sum(),
                heights[1].mean() - heights[0].mean(),
                heights[1].std() / heights[0].std(),
            )
        )
    return Spoken(*np.mean(rows, axis=0).tolist())


def _semitones(f0: FloatArray) -> npt.NDArray[np.float64]:
    """Of the voiced frames, above 1 Hz; ramps into silence left out."""
    return np.asarray(12 * np.log2(f0[f0 > 1.5 * VOICED_HZ].astype(np.float64)))


def _moves(name: str, by_scale: dict[float, Spoken]) -> list[Figure]:
    measure = MEASURES.get(name, "length")
    values = {scale: getattr(spoken, measure) for scale, spoken in by_scale.items()}
    bounds: dict[float, Any] = {}
    better: Any = "higher"
    if name in TARGETS:
        _, first, last, better = TARGETS[name]
        bounds = {SCALES[0]: first, SCALES[-1]: last}
    figures = [
        Figure(
            f"{name}, guidance {scale:g}", value, UNITS[measure], None, bounds.get(scale), better
        )
        for scale, value in values.items()
    ]
    if name in TARGETS:
        sign = 1 if better == "higher" else -1
        steps = np.diff([sign * value for value in values.values()])
        figures.append(
            Figure(f"{name}: scales that go back", int((steps <= 0).sum()), "", None, 0, "lower")
        )
    return figures
