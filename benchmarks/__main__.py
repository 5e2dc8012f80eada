"""``python -m benchmarks [NAME ...]``: measure, print a table, write JSON."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Report, as_json, as_table, write_json
from benchmarks.options import Options
from benchmarks.processes import describe_machine

NAMES = (
    "throughput",
    "ttfa",
    "listeners",
    "wer",
    "cancel",
    "leaks",
    "memory",
    "orchestrator",
    "failover",
    "voices",
    "traffic",
    "sockets",
    "talker",
    "talker_ttfa",
    "crowd",
    "guided_tokens",
    "codecs",
    "voice_to_voice",
    "barge_in",
    "talkers",
    "spoken_words",
)
RESULTS = Path(__file__).parent / "results"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 1 if a target was missed (never in quick mode), else 0."""
    arguments = _parser().parse_args(argv)
    options = Options(arguments.quick, arguments.pipeline)
    machine = describe_machine()
    reports = []
    for name in arguments.names or NAMES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        report: Report = importlib.import_module(f"benchmarks.{name}").run(options)
        reports.append(report)
        if arguments.out is None and not arguments.quick:
            write_json(RESULTS / f"{name}.json", as_json(report, machine))
    if arguments.out is not None:
        write_json(arguments.out, [as_json(report, machine) for report in reports])
    print(as_table(reports))
    missed = any(f.meets_target is False for report in reports for f in report.figures)
    return 1 if missed and not arguments.quick else 0


def _name(text: str) -> str:
    if text not in NAMES:
        raise argparse.ArgumentTypeError(f"no benchmark {text!r}; there are {', '.join(NAMES)}")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the server, each figure beside the bare library's in the same run.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", type=_name, help=f"(default: all) {', '.join(NAMES)}"
    )
    parser.add_argument("--quick", action="store_true", help="check that it works, in seconds")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="one JSON file for all, instead of results/"
    )
    parser.add_argument("--pipeline", default="hibari", help="(default: hibari)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
