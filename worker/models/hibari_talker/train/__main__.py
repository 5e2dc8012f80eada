"""``python -m worker.models.hibari_talker.train``: fetch texts, have them spoken, learn from that.

    ... fetch FOLDER                 download and unpack the Debian packages (needs apt-get)
    ... teach FOLDER                 sentences from FOLDER -> FOLDER/lessons.npz
    ... fit FOLDER [--steps N]       lessons -> FOLDER/checkpoint.pt and FOLDER/weights

``teach`` and ``fit`` can be stopped at any time and go on where they were, if they are asked for
the same thing. Exit status 1: one line on stderr says what is missing or does not fit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.errors import ConfigError
from worker.models.hibari_talker.train.corpus import fetch, read_sentences
from worker.models.hibari_talker.train.teacher import Lessons, teach

NUM_SENTENCES = 16_000
"""How many sentences the shipped weights were made from."""

_PART = 2000


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the commands."""
    arguments = _parser().parse_args(argv)
    try:
        _run(arguments)
    except (ConfigError, OSError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _run(arguments: argparse.Namespace) -> None:
    folder: Path = arguments.folder
    if arguments.command == "fetch":
        fetch(folder)
    elif arguments.command == "teach":
        _teach(folder, arguments.sentences, arguments.seed)
    else:
        _fit(folder, arguments)


def _teach(folder: Path, count: int, seed: int) -> None:
    sentences = read_sentences(folder / "unpacked", seed)[:count]
    if not sentences:
        raise ConfigError(f"{folder / 'unpacked'} holds no sentences: fetch them first")
    parts = []
    for start in range(0, len(sentences), _PART):
        part = sentences[start : start + _PART]
        # Another seed, or a part that was the last and is not now, has another name.
        path = folder / f"lessons-{seed}-{start}-{len(part)}.npz"
        if not path.exists():
            print(f"sentences from {start} of {len(sentences)}", file=sys.stderr, flush=True)
            teach(part).save(path)
        parts.append(Lessons.load(path))
    Lessons.join([part[index] for part in parts for index in range(len(part))]).save(
        folder / "lessons.npz"
    )


def _fit(folder: Path, arguments: argparse.Namespace) -> None:
    # torch takes seconds to import, and is only here for this.
    from worker.models.hibari_talker.train.fit import Fit, Schedule
    from worker.models.hibari_talker.train.net import Shape

    lessons = folder / "lessons.npz"
    if not lessons.is_file():
        raise ConfigError(f"there is no {lessons}: teach first")
    schedule = Schedule(num_steps=arguments.steps, num_decay=arguments.decay, seed=arguments.seed)
    fit = Fit(Lessons.load(lessons), folder, schedule, Shape())
    fit.run()
    fit.export(folder / "weights")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m worker.models.hibari_talker.train")
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="download and unpack the texts")
    teaching = commands.add_parser("teach", help="have the teacher speak the sentences")
    teaching.add_argument("--sentences", type=_at_least(1), default=NUM_SENTENCES)
    fitting = commands.add_parser("fit", help="train on what the teacher said")
    fitting.add_argument("--steps", type=_at_least(1), default=1600)
    fitting.add_argument("--decay", type=_at_least(0), default=600)
    for command in (fetching, teaching, fitting):
        command.add_argument("folder", type=Path)
        command.add_argument("--seed", type=_at_least(0), default=0)
    return parser


def _at_least(low: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        if not text.isdecimal() or int(text) < low:
            raise argparse.ArgumentTypeError(f"must be an integer from {low} up, got {text!r}")
        return int(text)

    return check


if __name__ == "__main__":
    sys.exit(main())
