"""The table of voices."""

from __future__ import annotations

import pytest

from engine.pipeline import Voice
from server.cli import main
from server.commands.voices import table
from tests.server.fake_engine import VOICES


def test_columns_are_aligned_under_their_header() -> None:
    header, *rows = table(VOICES)

    column = header.index("DESCRIPTION")
    assert [row[column:] for row in rows] == ["clear", "deep"]
    assert "alloy, nova" in rows[0]


def test_a_voice_without_aliases_has_a_dash() -> None:
    assert "  -  " in table([Voice("x", "X", "en", "neutral", "plain")])[1]


def test_the_command_prints_the_pipelines_voices(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["voices", "--pipeline", "sine"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["ID", "low", "high"]
