"""The command of the training: what it goes on with, and what it says of a wrong call."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.models.hibari_talker.train.lessons import TEXTS
from worker.models.hibari_talker.train.__main__ import main
from worker.models.hibari_talker.train.teacher import Lessons

pytestmark = pytest.mark.model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked" / "texts.u8").write_text("\n%\n".join(TEXTS))
    return tmp_path


def taught(folder: Path, *options: str) -> list[list[int]]:
    assert main(["teach", str(folder), *options]) == 0
    lessons = Lessons.load(folder / "lessons.npz")
    return [lessons[index].ids.tolist() for index in range(len(lessons))]


def test_lessons_are_those_of_the_seed_and_the_number_whatever_was_taught_before(
    folder: Path,
) -> None:
    few, others = taught(folder, "--sentences", "3"), taught(folder, "--seed", "1")
    every = taught(folder)
    assert (len(few), len(every)) == (3, len(TEXTS))
    assert every[:3] == few
    assert sorted(others) == sorted(every)
    assert others != every


def test_what_was_taught_is_gone_on_with(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = taught(folder)
    assert "sentences from 0 of 20" in capfd.readouterr().err
    assert taught(folder) == first
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["teach"], "unpacked holds no sentences: fetch them first"),
        (["fit"], "lessons.npz: teach first"),
    ],
)
def test_what_is_missing_is_one_line(
    tmp_path: Path, command: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, str(tmp_path)]) == 1
    error = capfd.readouterr().err
    assert error.startswith("error: ")
    assert error.endswith(f"{message}\n")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "option",
    [("fit", "--steps", "0"), ("fit", "--seed", "-1"), ("teach", "--sentences", "x")],
)
def test_a_wrong_number_is_refused_with_what_it_may_be(
    tmp_path: Path, option: tuple[str, str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    command, name, value = option
    with pytest.raises(SystemExit) as caught:
        main([command, str(tmp_path), f"{name}={value}"])
    assert caught.value.code == 2
    assert f"argument {name}: must be an integer from" in capfd.readouterr().err
