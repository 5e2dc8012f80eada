"""Cost of the hibari acoustic core over the bare library, part by part.

    python -m benchmarks.acoustic [--rounds 15] [--json PATH]

Every round times each part once, the library's beside ours, so that a busy machine slows both;
the table has medians. "cpu" is the time of the thread, "wall" that of the clock; the least of the
former is what other processes on the machine disturb least.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from hibari import Hibari, dsp

from worker.models.hibari.acoustic import Code2Wav, ProsodyNet, SentenceStream
from worker.models.hibari.decoder import DecoderStream, Spectra
from worker.models.hibari.graphs import read_voice
from worker.models.hibari.prosody_net import bundled_voice
from worker.models.hibari.shape import NEUTRAL, VoiceShape
from worker.models.hibari.vocoder import VocoderStream

TEXT = (
    "The old lighthouse keeper climbed the narrow winding stairs every evening "
    "to light the lamp before the ships came home."
)
STEP_FRAMES = 160
SKIP_FRAMES = 20
FIRST_SAMPLES = 1920
"""80 ms"""
SHAPED = VoiceShape(pitch_ratio=0.8, formant_ratio=0.9, tilt_db=2, noise_db=1)

Part = Callable[[], object]
FloatArray = npt.NDArray[np.float32]


class Parts:
    """The pieces of one sentence of twenty words, of the library and of ours."""

    def __init__(self) -> None:
        self._bare: Any = Hibari()
        voice = read_voice(bundled_voice())
        self._prosody, self._code2wav = ProsodyNet(voice), Code2Wav(voice)
        self._ids = np.array(self._bare.ids(self._bare.phonemize(TEXT)[0]), np.int64)
        self._frames = self._prosody.run(self._ids, 1.0)
        self._outputs = [each[0] for each in self._run_bare()]
        self._spectra = self._decode()

    def all(self) -> dict[str, Part]:
        return {
            "bare graph": self._run_bare,
            "bare synthesis": self._synthesise_bare,
            "bare": self.bare,
            "prosody": lambda: self._prosody.run(self._ids, 1.0),
            "front": self._prepare,
            "decoder": self._decode,
            "vocoder": self._vocode,
            "code2wav": lambda: _take(self._open(), STEP_FRAMES),
            "code2wav shaped": lambda: _take(self._open(SHAPED), STEP_FRAMES),
            "first chunk": self._first_chunk,
            "ours": self.ours,
        }

    def bare(self) -> None:
        self._bare.from_ids(self._ids, 1.0, np.random.default_rng(0))

    def ours(self) -> None:
        self._prosody.run(self._ids, 1.0)
        _take(self._open(), STEP_FRAMES)

    def _open(self, shape: VoiceShape = NEUTRAL, skip_frames: int = 0) -> SentenceStream:
        frames = self._frames
        return self._code2wav.open(
            self._ids,
            frames.durations,
            frames.f0,
            frames.energy,
            seed=0,
            shape=shape,
            skip_frames=skip_frames,
        )

    def _run_bare(self) -> list[FloatArray]:
        feed = {"ids": self._ids[None], "speed": np.ones(1, np.float32)}
        outputs: list[FloatArray] = self._bare.sess.run(None, feed)
        return outputs

    def _synthesise_bare(self) -> None:
        dsp.synth(*[each.copy() for each in self._outputs], np.random.default_rng(0))

    def _prepare(self) -> DecoderStream:
        frames, decoder = self._frames, self._code2wav.decoder
        given = decoder.prepare(self._ids, frames.durations, frames.f0, frames.energy)
        return DecoderStream(decoder, given)

    def _decode(self) -> list[Spectra]:
        stream = self._prepare()
        stops = [*range(STEP_FRAMES, stream.num_frames, STEP_FRAMES), stream.num_frames]
        return [stream.push(stop) for stop in stops]

    def _vocode(self) -> None:
        stream = VocoderStream(self._frames.f0, 0)
        for spectra in self._spectra:
            stream.push(spectra)

    def _first_chunk(self) -> None:
        stream = self._open(skip_frames=SKIP_FRAMES)
        num_samples = stream.step(SKIP_FRAMES + 36).size
        while num_samples < FIRST_SAMPLES:
            num_samples += stream.step(8).size


def _take(stream: SentenceStream, num_frames: int) -> None:
    while not stream.finished:
        stream.step(num_frames)


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of each part, and of a sentence with two at once."""
    parts = Parts()
    names = parts.all()
    wall: dict[str, list[float]] = {name: [] for name in names}
    cpu: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name, part in names.items():
            started, started_cpu = time.perf_counter(), time.thread_time()
            part()
            cpu[name].append(1e3 * (time.thread_time() - started_cpu))
            wall[name].append(1e3 * (time.perf_counter() - started))
    result = {
        name: {
            "wall_ms": statistics.median(wall[name]),
            "cpu_ms": statistics.median(cpu[name]),
            "least_cpu_ms": min(cpu[name]),
        }
        for name in names
    }
    pairs = [(_pair(parts.bare), _pair(parts.ours)) for _ in range(max(rounds // 3, 1))]
    result["bare, 2 threads"] = {"wall_ms": statistics.median(bare for bare, _ in pairs)}
    result["ours, 2 threads"] = {"wall_ms": statistics.median(ours for _, ours in pairs)}
    return result


def _pair(part: Part, repeats: int = 6) -> float:
    """Milliseconds per sentence with two threads at work."""
    with ThreadPoolExecutor(2) as threads:
        started = time.perf_counter()
        for future in [threads.submit(part) for _ in range(2 * repeats)]:
            future.result()
        return 1e3 * (time.perf_counter() - started) / (2 * repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost over the bare library.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = measure(arguments.rounds)
    for name, times in result.items():
        print(f"{name:18s}", *(f"{key} {value:7.2f}" for key, value in times.items()))
    for key in ("wall_ms", "cpu_ms", "least_cpu_ms"):
        print(f"ours / bare, {key}: {result['ours'][key] / result['bare'][key]:.2f}")
    ratio = result["ours, 2 threads"]["wall_ms"] / result["bare, 2 threads"]["wall_ms"]
    print(f"ours / bare, 2 threads: {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
