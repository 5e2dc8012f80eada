"""``python -m worker.models.hibari_talker.train``: fetch texts, have them spoken, learn from that.

    ... fetch FOLDER                 download and unpack the Debian packages (needs apt-get)
    ... teach FOLDER                 sentences from FOLDER -> FOLDER/lessons.npz
    ... fit FOLDER [--steps N]       lessons -> FOLDER/checkpoint.pt and FOLDER/weights

``teach`` and ``fit`` can be stopped at any time and go on where they were.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from worker.models.hibari_talker.train.corpus import fetch, read_sentences
from worker.models.hibari_talker.train.teacher import Lessons, teach

NUM_SENTENCES = 16_000
"""How many sentences the shipped weights were made from."""

_PART = 2000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    arguments = _parser().parse_args(argv)
    folder: Path = arguments.folder
    if arguments.command == "fetch":
        fetch(folder)
    elif arguments.command == "teach":
        _teach(folder, arguments.sentences, arguments.seed)
    else:
        _fit(folder, arguments)
    return 0


def _teach(folder: Path, count: int, seed: int) -> None:
    sentences = read_sentences(folder / "unpacked", seed)[:count]
    parts = []
    for start in range(0, len(sentences), _PART):
        path = folder / f"lessons-{start}.npz"
        if not path.exists():
            print(f"sentences from {start} of {len(sentences)}", file=sys.stderr, flush=True)
            teach(sentences[start : start + _PART]).save(path)
        parts.append(Lessons.load(path))
    Lessons.join([part[index] for part in parts for index in range(len(part))]).save(
        folder / "lessons.npz"
    )


def _fit(folder: Path, arguments: argparse.Namespace) -> None:
    # torch takes seconds to import, and is only here for this.
    from worker.models.hibari_talker.train.fit import Fit, Schedule
    from worker.models.hibari_talker.train.net import Shape

    schedule = Schedule(num_steps=arguments.steps, num_decay=arguments.decay, seed=arguments.seed)
    fit = Fit(Lessons.load(folder / "lessons.npz"), folder, schedule, Shape())
    fit.run()
    fit.export(folder / "weights")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m worker.models.hibari_talker.train")
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="download and unpack the texts")
    teaching = commands.add_parser("teach", help="have the teacher speak the sentences")
    teaching.add_argument("--sentences", type=int, default=NUM_SENTENCES)
    fitting = commands.add_parser("fit", help="train on what the teacher said")
    fitting.add_argument("--steps", type=int, default=1600)
    fitting.add_argument("--decay", type=int, default=600)
    for command in (fetching, teaching, fitting):
        command.add_argument("folder", type=Path)
        command.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
