"""Reading voice files, and refusing others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engine.errors import ConfigError
from tests.worker.models.hibari import bundled, float_reference
from worker.models.hibari.graphs import read_voice
from worker.models.hibari.prosody_net import ProsodyNet


def _copy() -> onnx.ModelProto:
    model = onnx.ModelProto()
    model.CopyFrom(bundled.voice().model)
    return model


def _rename_everything(model: onnx.ModelProto) -> None:
    """New names for all tensors but the graph's inputs and outputs."""
    graph = model.graph
    kept = {each.name for each in (*graph.input, *graph.output)} | {""}
    names: dict[str, str] = {}

    def renamed(name: str) -> str:
        return name if name in kept else names.setdefault(name, f"n{len(names)}")

    for node in graph.node:
        node.input[:] = [renamed(name) for name in node.input]
        node.output[:] = [renamed(name) for name in node.output]
    for tensor in graph.initializer:
        tensor.name = renamed(tensor.name)
    for value in graph.value_info:
        value.name = renamed(value.name)


def test_seams_are_found_by_structure_not_by_name(tmp_path: Path) -> None:
    model = _copy()
    _rename_everything(model)
    path = tmp_path / "voice.onnx"
    onnx.save(model, path)
    voice = read_voice(path)
    known = bundled.voice().decoder
    assert np.array_equal(voice.decoder.head.weight, known.head.weight)
    assert [each.gamma.tolist() for each in voice.decoder.blocks] == [
        each.gamma.tolist() for each in known.blocks
    ]
    frames = ProsodyNet(voice).run(bundled.ids(bundled.SHORT), 1.0)
    wanted = bundled.frames(bundled.SHORT)
    assert np.array_equal(frames.f0, wanted.f0)
    assert np.array_equal(frames.energy, wanted.energy)


def test_products_that_were_left_in_float_are_read_too(tmp_path: Path) -> None:
    known = bundled.voice()
    some = set(known.decoder.activations[:5])
    path = tmp_path / "voice.onnx"
    onnx.save(float_reference.float_products(known.model, some), path)
    decoder = read_voice(path).decoder
    assert decoder.activations == known.decoder.activations
    for ours, theirs in zip(decoder.blocks, known.decoder.blocks, strict=True):
        assert np.array_equal(ours.expand.weight, theirs.expand.weight)
        assert np.array_equal(ours.contract.weight, theirs.contract.weight)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "voice.onnx"
    path.write_text("no model")
    with pytest.raises(ConfigError, match=r"voice\.onnx cannot be read as an ONNX model"):
        read_voice(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_voice(tmp_path / "absent.onnx")


def test_another_model_is_refused(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    other = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [value], [other])
    onnx.save(helper.make_model(graph), tmp_path / "other.onnx")
    with pytest.raises(ConfigError, match="is not a hibari voice: its inputs must be ids and spe"):
        read_voice(tmp_path / "other.onnx")


def _drop_the_gelu(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Erf":
            node.op_type = "Tanh"


def _swap_the_parts(model: onnx.ModelProto) -> None:
    split = next(node for node in model.graph.node if "lh" in node.output)
    split.output[0], split.output[1] = split.output[1], split.output[0]


def _halve_the_kernels(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name.endswith("dec.0.dw.weight"):
            array = onnx.numpy_helper.to_array(tensor)[:, :, :3]
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(array), tensor.name))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_drop_the_gelu, "should come from Erf"),
        (_swap_the_parts, "should be split as lh, theta, ln, lr, phi"),
        (_halve_the_kernels, "depthwise convolutions should have shape"),
    ],
)
def test_a_model_that_computes_something_else_is_refused(
    tmp_path: Path, change: Callable[[onnx.ModelProto], None], reason: str
) -> None:
    model = _copy()
    change(model)
    path = tmp_path / "voice.onnx"
    onnx.save(model, path)
    with pytest.raises(ConfigError, match=f"is not a hibari voice: .*{reason}"):
        read_voice(path)
