"""Sound per second of the stages that decode codes, beside their codecs without a stage.

The codecs have their published shapes and random weights. A stage decodes speeches in the windows
of a stream; "bare" is the same codec that decodes the same speeches whole, in one batch. All
streams begin at once and stay in step, so each step is one batch: what batching can give at best.
On a GPU where there is one; all in float32.
"""

from __future__ import annotations

import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from benchmarks.codec_subjects import KINDS, SEED, Codes, Kind, Samples, Subject
from benchmarks.figures import Figure, Report
from benchmarks.options import Options
from engine.messages import SamplingParams, StageRequest, StageUpdate
from worker.models.lm_codec.codec import pick_device

_COUNTS = {False: (1, 8, 32, 64), True: (2,)}
_SPEECH_S = {False: 6.0, True: 1.0}
_NUM_ROUNDS = 3
# A round is left out if it would take longer, by what the smaller ones took for each request.
_MAX_ROUND_S = {"cpu": 8.0, "cuda": 45.0}


@dataclass(frozen=True, slots=True)
class _Round:
    """``first_step_s``: until all of the requests have their first sound.

    ``peak_mib``: GPU memory that torch had in use at most, weights included; 0 without a GPU.
    """

    wall_s: float
    first_step_s: float
    peak_mib: float
    audio: list[Samples]


def run(options: Options) -> Report:
    device = pick_device("auto")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    figures, details = list[Figure](), dict[str, Any]()
    for name, kind in KINDS.items():
        if device.type == "cpu" and not kind.on_cpu and not options.quick:
            details[name] = {"left out": "at this size it is measured on GPUs only"}
            _say(f"{name}: left out on a CPU")
            continue
        with tempfile.TemporaryDirectory() as folder:
            subject = _build(kind, Path(folder), device, options)
        found, details[name] = _measure(name, subject, options, _MAX_ROUND_S[device.type])
        figures += found
        del subject
        gc.collect()
        torch.cuda.empty_cache()
    return Report("codecs", figures, {"device": _describe(device), "codecs": details})


def _build(kind: Kind, folder: Path, device: torch.device, options: Options) -> Subject:
    torch.manual_seed(1)
    kind.write(folder, kind.small if options.quick else {})
    return kind.build(folder, device)


def _measure(
    name: str, subject: Subject, options: Options, max_round_s: float
) -> tuple[list[Figure], dict[str, Any]]:
    num_frames = round(_SPEECH_S[options.quick] * subject.sample_rate / subject.frame_samples)
    figures, details = list[Figure](), dict[str, Any]()
    for count in _COUNTS[options.quick]:
        speeches = [subject.draw(num_frames, seed) for seed in range(count)]
        warm, bare_warm = _stage_round(subject, speeches), _bare_round(subject, speeches)
        if not details:
            details |= _compare(warm.audio[0], bare_warm.audio[0])
        is_short = max(warm.wall_s, bare_warm.wall_s) < max_round_s / 4
        pairs = [
            (_stage_round(subject, speeches), _bare_round(subject, speeches))
            for _ in range(options.pick(_NUM_ROUNDS, 1) if is_short else 1)
        ]
        figures += _figures(f"{name}, {count} at once", subject, pairs)
        details[f"{count} at once"] = {
            "stage_s": [stage.wall_s for stage, _ in pairs],
            "bare_s": [bare.wall_s for _, bare in pairs],
            "stage_peak_mib": max(stage.peak_mib for stage, _ in pairs),
            "bare_peak_mib": max(bare.peak_mib for _, bare in pairs),
        }
        larger = [other for other in _COUNTS[options.quick] if other > count]
        slower_s = max(round_.wall_s for pair in pairs for round_ in pair)
        if larger and slower_s / count * larger[0] > max_round_s:
            details["left out"] = f"{larger} at once: a round of {count} took {slower_s:.1f} s"
            _say(f"{name}: left out {details['left out']}")
            break
    return figures, details


def _figures(name: str, subject: Subject, pairs: Sequence[tuple[_Round, _Round]]) -> list[Figure]:
    sound_s = sum(map(len, pairs[0][0].audio)) / subject.sample_rate
    rate = statistics.median(sound_s / stage.wall_s for stage, _ in pairs)
    # Of neighbouring rounds, as what else the machine does changes from minute to minute.
    ratio = statistics.median(bare.wall_s / stage.wall_s for stage, bare in pairs)
    first_ms = 1000 * statistics.median(stage.first_step_s for stage, _ in pairs)
    _say(f"{name}: {rate:.1f} s/s, ratio {ratio:.2f}, first step {first_ms:.1f} ms")
    return [
        Figure(f"{name}: sound per second", rate, "s/s", rate / ratio),
        Figure(f"{name}: first step", first_ms, "ms", better="lower"),
    ]


def _stage_round(subject: Subject, speeches: Sequence[Codes]) -> _Round:
    stage = subject.stage
    pieces: dict[str, list[Any]] = {f"r{number}": [] for number in range(len(speeches))}
    for request_id, codes in zip(pieces, speeches, strict=True):
        stage.add(StageRequest(request_id, {}, SamplingParams(), SEED))
        stage.update(StageUpdate(request_id, 0, subject.unit(codes), final=True))
    _reset_peak()
    started = time.perf_counter()
    first_step_s = 0.0
    while batch := [request_id for request_id in pieces if stage.has_work(request_id)]:
        output = stage.step(batch)
        for request_id, samples in zip(
            output.multimodal_outputs["meta"]["req_id"],
            output.multimodal_outputs["audio"],
            strict=True,
        ):
            pieces[request_id].append(samples)
        if not first_step_s and all(pieces.values()):
            first_step_s = time.perf_counter() - started
        for request_id, row in output.rows.items():
            if row.error is not None:
                raise row.error
            if row.finished:
                stage.abort(request_id)
    wall_s = time.perf_counter() - started
    audio = [np.concatenate(chunks).astype(np.float32) / 32767 for chunks in pieces.values()]
    return _Round(wall_s, first_step_s, _peak_mib(), audio)


def _bare_round(subject: Subject, speeches: Sequence[Codes]) -> _Round:
    _reset_peak()
    started = time.perf_counter()
    audio = subject.decode_whole(speeches)
    wall_s = time.perf_counter() - started
    return _Round(wall_s, wall_s, _peak_mib(), audio)


def _compare(stage: Samples, bare: Samples) -> dict[str, Any]:
    assert len(stage) == len(bare), "the stage lost sound"
    difference = np.abs(stage - np.clip(bare, -1, 1))
    return {
        "loudest sample": float(np.abs(bare).max()),
        "largest difference of stage and bare": float(difference.max()),
    }


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def _peak_mib() -> float:
    return torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else 0.0


def _describe(device: torch.device) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": device.type,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "num_threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        found |= {"name": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
    return found


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
