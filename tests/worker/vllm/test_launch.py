"""What keeps vLLM from starting is said in one sentence; what it is started with."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from engine.errors import ConfigError
from engine.pipeline import LlmConfig, LoraModule
from worker.vllm import launch
from worker.vllm.stderr_tail import StderrTail


def test_a_version_that_was_not_tested_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda _name: "0.33.1")
    with pytest.raises(ConfigError, match=r"^vLLM 0\.33\.1 is installed, .* needs 0\.32$"):
        launch.check_version()


def test_a_missing_vllm_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", nowhere)
    with pytest.raises(ConfigError, match=r"not installed: pip install 'voxloom\[vllm\]'"):
        launch.check_version()


def test_the_installed_version_is_the_tested_one() -> None:
    assert launch.check_version().startswith("0.32.")


def test_a_checkpoint_beside_a_package_is_found_there() -> None:
    found = launch.resolve_checkpoint("worker.models:weights")
    assert Path(found).parent.name == "models"
    assert launch.resolve_checkpoint("someone/model") == "someone/model"
    with pytest.raises(ConfigError, match="cannot import 'nowhere'"):
        launch.resolve_checkpoint("nowhere:weights")


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no folder"):
        launch.check_checkpoint(str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"holds no config\.json"):
        launch.check_checkpoint(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="holds no weights"):
        launch.check_checkpoint(str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"")
    launch.check_checkpoint(str(tmp_path))


def test_groups_get_the_scheduler_and_the_settings_that_they_need() -> None:
    arguments = launch.engine_arguments(LlmConfig(checkpoint="a/b", max_model_len=4000))
    assert arguments["scheduler_cls"].endswith("GroupScheduler")
    assert not arguments["enable_chunked_prefill"]
    assert not arguments["async_scheduling"]
    assert arguments["max_num_batched_tokens"] == 8000
    assert arguments["skip_tokenizer_init"]
    assert "enable_lora" not in arguments


def test_declared_loras_are_made_room_for() -> None:
    loras = (LoraModule(name="a", path="p"), LoraModule(name="b", path="q"))
    llm = LlmConfig(checkpoint="a/b", loras=loras, max_lora_rank=32)
    arguments = launch.engine_arguments(llm)
    assert (arguments["enable_lora"], arguments["max_lora_rank"]) == (True, 32)
    assert arguments["max_loras"] == 3, "the last place stays empty"


CRASH = (
    "(EngineCore pid=7) ERROR 01-01 [core.py:1] Traceback (most recent call last):\n"
    "(EngineCore pid=7) ERROR 01-01 [core.py:1]   File 'x.py', line 1, in f\n"
    "(EngineCore pid=7) ERROR 01-01 [core.py:1] ValueError: No available memory for the cache\n"
    "RuntimeError: Engine core initialization failed. See root cause above.\n"
)


def test_the_cause_is_found_in_what_other_processes_print() -> None:
    with StderrTail() as tail:
        os.write(2, CRASH.encode())
        tail.close()
    assert tail.cause() == "No available memory for the cache"


FAILED_CHECK = (
    "(EngineCore pid=7) ERROR 01-01 [core.py:1]     assert weight.shape[0] == self.size\n"
    "(EngineCore pid=7) ERROR 01-01 [core.py:1]            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
    "(EngineCore pid=7) ERROR 01-01 [core.py:1] AssertionError\n"
    "RuntimeError: Engine core initialization failed. See root cause above.\n"
)


def test_a_check_without_a_message_is_told_itself() -> None:
    with StderrTail() as tail:
        os.write(2, FAILED_CHECK.encode())
        tail.close()
    assert tail.cause() == "it fails at 'assert weight.shape[0] == self.size'"


def test_what_a_process_has_printed_is_there_though_it_lives() -> None:
    program = "import os, sys; os.write(2, b'ValueError: too small\\n'); print(flush=True); input()"
    with StderrTail() as tail:
        child = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        assert child.stdout.readline()
        tail.close()
        assert tail.cause() == "too small"
    child.communicate(b"\n")


def test_what_is_printed_still_reaches_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with StderrTail() as tail:
        os.write(2, b"passing by\n")
        tail.close()
    assert "passing by" in capfd.readouterr().err
    assert tail.cause() is None
