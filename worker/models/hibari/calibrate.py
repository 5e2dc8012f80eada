"""Measures how far the decoder's activations reach, which sets the scales of their int8 form.

The reach of the voice in the hibari wheel is kept in ``calibration.json``, with the sentences
(phoneme ids) on which other voices are measured when they are loaded. To make that file again:

    python -m worker.models.hibari.calibrate

It is measured over the sentences at speeds from 0.25 to 4 and pitches from 0.6 to 1.7 times the
voice's own. Values beyond the reach are clipped; taking less than the maximum (a percentile) costs
more than the finer scale gains.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from worker.models.hibari.decoder import Decoder, DecoderInput
from worker.models.hibari.decoder_graph import build_decoder
from worker.models.hibari.graphs import DecoderWeights, VoiceGraph, read_voice
from worker.models.hibari.prosody_net import ProsodyFrames, ProsodyNet, bundled_voice
from worker.models.hibari.quantise import Reach
from worker.models.hibari.sessions import open_session

CALIBRATION_PATH = Path(__file__).with_name("calibration.json")

CONDITIONS = ((1.0, 1.0), (0.7, 1.0), (1.4, 1.3), (1.0, 0.6), (0.25, 1.0), (2.0, 1.7), (4.0, 1.0))
"""Speed and pitch ratio, taken in turn."""

UNIT = 0.01
"""Reach is kept in multiples of this: no file of long numbers, and no last bits of a machine."""


def load_reach(voice: VoiceGraph) -> Reach:
    """The voice's reach: from ``calibration.json`` if it is there, otherwise measured now."""
    stored = _stored()
    if stored["decoder"] != decoder_digest(voice.decoder):
        return measure_reach(voice, stored["sentences"])
    kept = zip(voice.decoder.activations, stored["reach"], strict=True)
    return {name: np.asarray(each, np.float32) * np.float32(UNIT) for name, each in kept}


def measure_reach(voice: VoiceGraph, sentences: Iterable[list[int]]) -> Reach:
    """Measure the float decoder's activations on sentences (phoneme ids), rounded up to UNIT."""
    session = open_session(build_decoder(voice.decoder, None, probe=True))
    names = voice.decoder.activations
    reach = [np.zeros(1, np.float32) for _ in names]
    for feed in _feeds(voice, sentences):
        values = [np.abs(value).reshape(-1, value.shape[-1]) for value in session.run(names, feed)]
        reach = [np.maximum(old, new.max(axis=0)) for old, new in zip(reach, values, strict=True)]
    rounded = [np.ceil(each / UNIT).astype(np.float32) * np.float32(UNIT) for each in reach]
    return dict(zip(names, rounded, strict=True))


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
    reach = measure_reach(voice, repeated)
    content = {
        "decoder": decoder_digest(voice.decoder),
        "reach": [np.rint(each / UNIT).astype(int).tolist() for each in reach.values()],
        "sentences": [sentences[text] for text in LOAD_TIME_TEXTS],
    }
    CALIBRATION_PATH.write_text(json.dumps(content) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
