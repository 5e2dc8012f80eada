"""``voxloom voices``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from engine.pipeline import Voice, load_pipeline, load_voices

_HEADER = ("ID", "LANGUAGE", "GENDER", "ALIASES", "DESCRIPTION")


def run(arguments: argparse.Namespace) -> int:
    """Print the voices of a pipeline. Raises ``ConfigError``."""
    for line in table(load_voices(load_pipeline(arguments.pipeline))):
        print(line)
    return 0


def table(voices: Sequence[Voice]) -> list[str]:
    """The voices as lines of aligned columns, under a header; the first is the default."""
    rows = [_HEADER]
    for voice in voices:
        aliases = ", ".join(voice.aliases) or "-"
        rows.append((voice.id, voice.language, voice.gender, aliases, voice.description))
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
