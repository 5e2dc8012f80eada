"""Parts of a checkpoint are found in one file or in many, and nothing else of it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine.errors import ConfigError
from tests.worker.models.qwen_omni import small_qwen3
from worker.models.qwen_omni.qwen3_code2wav import load_decoder
from worker.models.qwen_omni.qwen3_talker import load_talker
from worker.models.qwen_omni.weights import generation_config, thinker_embeddings, weight_files

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("default")]

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sharded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same checkpoint in many files."""
    path = tmp_path_factory.mktemp("sharded")
    small_qwen3.reference().save_pretrained(path, max_shard_size="60KB")
    return path


def test_a_part_is_the_same_from_one_file_and_from_many(sharded: Path) -> None:
    one = load_talker(str(small_qwen3.checkpoint()), "auto", CPU)._model.state_dict()
    many = load_talker(str(sharded), "auto", CPU)._model.state_dict()
    whole = small_qwen3.reference().talker.state_dict()
    assert one.keys() == many.keys() == whole.keys()
    assert all(torch.equal(one[name], whole[name]) for name in whole)
    assert all(torch.equal(many[name], whole[name]) for name in whole)


def test_only_the_files_of_a_part_decide_what_it_computes(sharded: Path) -> None:
    every = weight_files(str(sharded))
    part = weight_files(str(sharded), "code2wav.")
    assert len(every) > len(part) > 1
    assert set(load_decoder(str(sharded), CPU).files) == set(part)
    one = [path.name for path in weight_files(str(small_qwen3.checkpoint()), "talker.")]
    assert one == ["config.json", "model.safetensors"]


def test_embeddings_are_rows_of_the_thinkers_table(sharded: Path) -> None:
    table = small_qwen3.reference().thinker.get_input_embeddings().weight
    for path in (sharded, small_qwen3.checkpoint()):
        assert torch.equal(thinker_embeddings(str(path), [7, 2]), table[[7, 2]])
    with pytest.raises(ConfigError, match=r"no embeddings of \[300\] among 300"):
        thinker_embeddings(str(sharded), [300])


def test_a_checkpoint_without_the_part_is_refused(tmp_path: Path) -> None:
    model = small_qwen3.reference()
    weights = {name: w for name, w in model.state_dict().items() if not name.startswith("code2wav")}
    model.save_pretrained(tmp_path, state_dict=weights)
    with pytest.raises(ConfigError, match=r"has no code2wav\..*such weights"):
        load_decoder(str(tmp_path), CPU)


def test_without_a_generation_config_nothing_is_said(tmp_path: Path) -> None:
    assert generation_config(str(tmp_path)) == {}
    said = generation_config(str(small_qwen3.checkpoint()))
    assert said["talker_repetition_penalty"] == 1.3
