"""Each benchmark, whole, in quick mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import NAMES, main

# The others have tests of their own.
TALKING = ("voice_to_voice", "barge_in", "talkers", "spoken_words")
QUIET = [
    name for name in NAMES if name not in ("wer", "talker", "guided_tokens", "codecs", *TALKING)
]
# What must be so even of a quick run, whatever the machine is busy with.
CERTAIN = {
    "integrity checks that failed": 0,
    "seeded answers whose bytes differ": 0,
    "transcripts that are not what was written": 0,
}


def run_quick(name: str, out: Path) -> dict[str, float]:
    """The figures of a quick run on the tone pipeline."""
    assert main([name, "--quick", "--pipeline", "sine", "--out", str(out)]) == 0
    (report,) = json.loads(out.read_text())
    assert report["benchmark"] == name
    assert report["machine"]["num_cores"] >= 1
    return {figure["name"]: figure["value"] for figure in report["figures"]}


def check(figures: dict[str, float]) -> None:
    assert figures
    for name, expected in CERTAIN.items():
        assert figures.get(name, expected) == expected


@pytest.mark.process
@pytest.mark.model
@pytest.mark.parametrize("name", QUIET)
def test_the_benchmark_measures_a_real_server(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = run_quick(name, tmp_path / "out.json")
    check(figures)
    assert all(figure in capsys.readouterr().out for figure in list(figures)[:1])


@pytest.mark.process
@pytest.mark.model
@pytest.mark.asr
def test_the_word_error_rate_of_tones_is_that_of_nothing_understood(tmp_path: Path) -> None:
    figures = run_quick("wer", tmp_path / "out.json")
    check(figures)
    assert figures["WER, one at a time"] >= 50


@pytest.mark.process
@pytest.mark.model
@pytest.mark.asr
@pytest.mark.parametrize("name", TALKING)
def test_the_benchmark_talks_with_a_real_server(name: str, tmp_path: Path) -> None:
    check(run_quick(name, tmp_path / "out.json"))


@pytest.mark.model
@pytest.mark.asr
@pytest.mark.torch
def test_the_talker_is_measured_without_a_server(tmp_path: Path) -> None:
    figures = run_quick("talker", tmp_path / "out.json")
    assert figures["durations exact, teacher-forced"] > 0.8
    assert figures["slow, guidance 5"] > figures["fast, guidance 5"]


def test_an_unknown_benchmark_is_refused_with_the_known_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["speed"])
    assert caught.value.code == 2
    assert "throughput, ttfa, listeners" in capsys.readouterr().err
