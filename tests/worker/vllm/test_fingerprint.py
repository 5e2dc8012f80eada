"""Replicas promise the same bytes only with the same files."""

from __future__ import annotations

from pathlib import Path

from engine.pipeline import LlmConfig, LoraModule
from worker.vllm.fingerprint import llm_fingerprint


def digest(folder: Path, *loras: str) -> str:
    modules = tuple(LoraModule(name=path, path=path) for path in loras)
    llm = LlmConfig(checkpoint=str(folder / "model"), loras=modules)
    return llm_fingerprint(llm, [folder / "more"]).model_sha256


def test_a_change_in_any_file_is_another_fingerprint(tmp_path: Path) -> None:
    lora = tmp_path / "lora"
    files = [
        tmp_path / "model" / "config.json",
        tmp_path / "model" / "model.safetensors",
        lora / "adapter_config.json",
        lora / "adapter_model.safetensors",
        tmp_path / "more",
    ]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"1")
    before = digest(tmp_path, str(lora))
    assert digest(tmp_path, str(lora)) == before
    for file in files:
        file.write_bytes(b"2")
        assert digest(tmp_path, str(lora)) != before
        file.write_bytes(b"1")
    assert digest(tmp_path, str(lora)) == before


def test_what_a_hub_has_counts_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "more").write_bytes(b"1")
    digests = {digest(tmp_path), digest(tmp_path, "a/one"), digest(tmp_path, "a/two")}
    assert len(digests) == 3
