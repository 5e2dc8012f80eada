"""Finds the constant scales with which the decoder quantises its activations.

The scales of the voice in the hibari wheel are kept in ``calibration.json``, with the sentences
(phoneme ids) that other voices are calibrated on when they are loaded. To make that file again:

    python -m worker.models.hibari.calibrate

The range of a tensor is what it reaches over the sentences, at speeds from 0.25 to 4 and pitches
from 0.6 to 1.7 times the voice's own, and 2 % more. Taking the whole range instead of a percentile
is what keeps the distance to the float decoder where the voice file's own, per-call ranges have it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from worker.models.hibari.decoder import Decoder, DecoderInput
from worker.models.hibari.decoder_graph import Quantiser, Quantisers, build_decoder
from worker.models.hibari.graphs import DecoderWeights, VoiceGraph, read_voice
from worker.models.hibari.prosody_net import ProsodyFrames, ProsodyNet, bundled_voice
from worker.models.hibari.sessions import open_session

CALIBRATION_PATH = Path(__file__).with_name("calibration.json")

CONDITIONS = ((1.0, 1.0), (0.7, 1.0), (1.4, 1.3), (1.0, 0.6), (0.25, 1.0), (2.0, 1.7), (4.0, 1.0))
"""Speed and pitch ratio, taken in turn."""

MARGIN = 1.02

Range = tuple[float, float]


def load_quantisers(voice: VoiceGraph) -> Quantisers:
    """The voice's quantisers: from ``calibration.json`` if it has them, otherwise measured now."""
    stored = _stored()
    names = voice.decoder.activations
    if stored["decoder"] != decoder_digest(voice.decoder):
        return calibrate(voice, stored["sentences"])
    quantisers = [Quantiser(scale, zero) for scale, zero in stored["quantisers"]]
    return dict(zip(names, quantisers, strict=True))


def calibrate(voice: VoiceGraph, sentences: Iterable[list[int]]) -> Quantisers:
    """Measure the ranges of the float decoder's activations on sentences (phoneme ids)."""
    session = open_session(build_decoder(voice.decoder, None, probe=True))
    names = voice.decoder.activations
    low, high = np.zeros(len(names)), np.zeros(len(names))
    for feed in _feeds(voice, sentences):
        values = session.run(names, feed)
        low = np.minimum(low, [value.min() for value in values])
        high = np.maximum(high, [value.max() for value in values])
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return {name: _quantiser(each) for name, each in zip(names, ranges, strict=True)}


def decoder_digest(weights: DecoderWeights) -> str:
    """SHA-256 of the decoder's matrices: the voice, whatever its file is called."""
    digest = hashlib.sha256(weights.input_weight.tobytes())
    for block in weights.blocks:
        digest.update(block.expand.weight.tobytes())
        digest.update(block.contract.weight.tobytes())
    digest.update(weights.head.weight.tobytes())
    return digest.hexdigest()


@cache
def _stored() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(CALIBRATION_PATH.read_text(encoding="utf-8"))
    return stored


def _quantiser(span: Range) -> Quantiser:
    """Quantiser for a range that includes 0. Rounding hides last bits that differ by machine."""
    low, high = span
    step = MARGIN * (high - low) / 255
    digits = 3 - math.ceil(math.log10(step))
    scale = float(np.float32(round(step, digits)))
    return Quantiser(scale, min(max(round(-MARGIN * low / scale), 0), 255))


def _feeds(
    voice: VoiceGraph, sentences: Iterable[list[int]]
) -> Iterator[dict[str, npt.NDArray[Any]]]:
    prosody, decoder = ProsodyNet(voice), Decoder(voice, None)
    for sentence, (speed, pitch_ratio) in zip(sentences, cycle(CONDITIONS), strict=False):
        ids = np.asarray(sentence, np.int64)
        frames = prosody.run(ids, speed)
        yield decoder.feed_whole(_prepare(decoder, ids, frames, pitch_ratio))


def _prepare(
    decoder: Decoder, ids: npt.NDArray[np.int64], frames: ProsodyFrames, pitch_ratio: float
) -> DecoderInput:
    f0 = frames.f0 * np.float32(pitch_ratio)
    return decoder.prepare(ids, frames.durations, f0, frames.energy)


def main() -> None:
    """Write ``calibration.json`` for the voice in the hibari wheel."""
    from hibari import Hibari

    from worker.models.hibari.calibration_texts import LOAD_TIME_TEXTS, TEXTS

    reader = Hibari()
    sentences = {text: reader.ids(reader.phonemize(text)[0]) for text in TEXTS}
    voice = read_voice(bundled_voice())
    repeated = [sentences[text] for text in TEXTS for _ in range(len(CONDITIONS) + 1)]
    quantisers = calibrate(voice, repeated)
    content = {
        "decoder": decoder_digest(voice.decoder),
        "quantisers": [[each.scale, each.zero] for each in quantisers.values()],
        "sentences": [sentences[text] for text in LOAD_TIME_TEXTS],
    }
    CALIBRATION_PATH.write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
