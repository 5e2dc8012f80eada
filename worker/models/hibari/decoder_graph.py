"""Builds the streaming decoder: the voice's own weights in a graph that takes a sentence in pieces.

Differences from the graph in the voice file, none of which changes what it computes:

- Each convolution takes the frames before its input as state and returns the last ones, so that no
  frame is computed twice. A state of three zero frames says that the sentence begins here, an
  ``end`` of three that it ends here: every layer is padded where the whole sentence has it.
- Activations are quantised with constant scales (see ``quantise.py``). The voice file takes a scale
  from each tensor's range, which makes a frame depend on the frames that share its call.
- Frames are rows throughout: without the transposes, every node but the convolutions works row by
  row, and a row's bits do not depend on how many rows there are.
- The layer scale is folded into the scales of the product before it.
- The first convolution reads text that is constant over a phoneme. Its products with the seven taps
  are made once per phoneme (``taps``) and gathered per frame (``tap_rows``).
- exp and tanh, which the vocoder needs next, are inside: they are faster here than in numpy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from worker.models.hibari.graphs import (
    KERNEL,
    NUM_BINS,
    Block,
    DecoderWeights,
    Linear,
    Norm,
    VoiceGraph,
)
from worker.models.hibari.quantise import (
    Quantiser,
    Reach,
    equalised_weight,
    gelu_quantiser,
    norm_quantiser,
)

FloatArray = npt.NDArray[np.float32]

OPSETS = (helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1))
IR_VERSION = 8
"""What opset 17 came with: old enough for every onnxruntime that the project accepts."""

MAX_LOG_MAGNITUDE = 7.0
"""Log magnitudes are clipped here before exp, as in hibari's own ``dsp.ex``."""

NUM_MAGNITUDES = 3
"""Log magnitudes per bin: harmonic, noise, free branch."""


@dataclass(slots=True)
class _Builder:
    """Collects nodes and constants; names results by a running number."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        name = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def model(self, inputs: dict[str, tuple[int, list[Any]]], outputs: list[str]) -> bytes:
        graph = helper.make_graph(
            self.nodes,
            "part",
            [_tensor(name, *form) for name, form in inputs.items()],
            [_tensor(name, TensorProto.FLOAT, None) for name in outputs],
            self.tensors,
        )
        model = helper.make_model(graph, opset_imports=OPSETS, ir_version=IR_VERSION)
        return bytes(model.SerializeToString())


def build_decoder(weights: DecoderWeights, reach: Reach | None, *, probe: bool = False) -> bytes:
    """The streaming decoder as a serialised ONNX model.

    Args:
        weights: the voice's decoder.
        reach: of every activation; ``None`` builds the decoder in float32.
        probe: also output every activation that would be quantised, under its name in the voice
            file; only without ``reach``, which changes them.

    The model maps, for n frames pushed and m frames that come out::

        tap_rows int64 [n, 7], prosody float32 [n, C], taps float32 [R, C]
        state float32 [layers, s, 1, C]  (s = 3 zeros at first, then the state returned)
        end float32 [1, e, 1, C]         (e = 0, or 3 zeros with the last frames)
        -> magnitude float32 [m, 1803]   exp of the clipped log magnitudes: harmonic, noise, free
           harmonic_phase float32 [m, 601] half turns, free_phase float32 [m, 601] radians
           next_state float32 [layers, 6, 1, C]
    """
    build = _Builder()
    channels = weights.input_bias.size
    states = [f"state{index}" for index in range(len(weights.blocks))]
    build.nodes.append(helper.make_node("Split", ["state"], states, axis=0))
    x = _input_layer(build, weights)
    carried: list[str] = []
    for state, block in zip(states, weights.blocks, strict=True):
        x, last = _block(build, block, x, state, reach)
        carried.append(last)
    build.node("Concat", *carried, output="next_state", axis=0)
    _head(build, weights, x, reach)
    outputs = ["magnitude", "harmonic_phase", "free_phase", "next_state"]
    return build.model(
        {
            "tap_rows": (TensorProto.INT64, ["n", KERNEL]),
            "prosody": (TensorProto.FLOAT, ["n", channels]),
            "taps": (TensorProto.FLOAT, ["rows", channels]),
            "state": (TensorProto.FLOAT, [len(states), "s", 1, channels]),
            "end": (TensorProto.FLOAT, [1, "e", 1, channels]),
        },
        outputs + (weights.activations if probe else []),
    )


def build_taps(voice: VoiceGraph) -> bytes:
    """The reader of a sentence's text, as a serialised ONNX model.

    Maps ``ids`` int64 [1, L] to ``taps`` float32 [7 * L + 1, C]: the products of the text features
    with the taps of the first convolution, row ``7 * phoneme + tap``, and a last row of zeros for
    beyond the sentence.
    """
    model = voice.cut(["ids"], {voice.seams.text: TensorProto.FLOAT})
    build = _Builder()
    _add_taps(build, voice.seams.text, voice.decoder.input_weight[:, :-2])
    graph = model.graph
    graph.node.extend(build.nodes)
    graph.initializer.extend(build.tensors)
    del graph.output[:]
    graph.output.append(_tensor("taps", TensorProto.FLOAT, None))
    return bytes(model.SerializeToString())


def build_prosody(weights: DecoderWeights) -> bytes:
    """The first convolution's share of pitch and energy, as a serialised ONNX model.

    Maps ``curves`` float32 [F, 14] (seven taps of pitch, then of energy) to ``prosody`` float32
    [F, C], with the convolution's bias.
    """
    build = _Builder()
    weight = weights.input_weight[:, -2:].transpose(1, 2, 0).reshape(2 * KERNEL, -1)
    constants = (build.constant(weight), build.constant(weights.input_bias))
    build.node("Gemm", "curves", *constants, output="prosody")
    return build.model({"curves": (TensorProto.FLOAT, ["F", 2 * KERNEL])}, ["prosody"])


def _tensor(name: str, kind: int, shape: list[Any] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _add_taps(build: _Builder, text: str, weight: npt.NDArray[np.float32]) -> None:
    channels, num_features, _ = weight.shape
    rows = build.node("Transpose", text, perm=[0, 2, 1])
    table = build.constant(weight.transpose(1, 2, 0).reshape(num_features, -1))
    shape = build.constant([-1, channels], np.int64)
    flat = build.node("Reshape", build.node("MatMul", rows, table), shape)
    build.node("Concat", flat, build.constant(np.zeros((1, channels))), output="taps", axis=0)


def _input_layer(build: _Builder, weights: DecoderWeights) -> str:
    gathered = build.node("Gather", "taps", "tap_rows", axis=0)
    text = build.node("ReduceSum", gathered, build.constant([1], np.int64), keepdims=0)
    summed = build.node("Add", text, "prosody")
    shape = build.constant([1, -1, 1, weights.input_bias.size], np.int64)
    return build.node("Reshape", summed, shape)


def _block(
    build: _Builder, block: Block, x: str, state: str, reach: Reach | None
) -> tuple[str, str]:
    """One block on rows [1, n, 1, C]; returns its output and its new state."""
    half = KERNEL // 2
    axis = build.constant([1], np.int64)
    most = build.constant([np.iinfo(np.int64).max], np.int64)
    padded = build.node("Concat", state, x, "end", axis=1)
    carried = build.node("Slice", padded, build.constant([1 - KERNEL], np.int64), most, axis)
    skip = build.node(
        "Slice", padded, build.constant([half], np.int64), build.constant([-half], np.int64), axis
    )
    y = _depthwise(build, block, padded)
    y = _norm_and_product(build, block.norm, y, block.norm_output, block.expand, reach)
    y = build.node("Gelu", y, domain="com.microsoft", output=block.gelu_output)
    return build.node("Add", skip, _contract(build, block, y, reach)), carried


def _depthwise(build: _Builder, block: Block, rows: str) -> str:
    """The transposes are free: onnxruntime merges them into the change to its blocked layout."""
    convolved = build.node(
        "Conv",
        build.node("Transpose", rows, perm=[0, 3, 1, 2]),
        build.constant(block.conv_weight[..., None]),
        build.constant(block.conv_bias),
        group=block.conv_bias.size,
        kernel_shape=[KERNEL, 1],
    )
    return build.node("Transpose", convolved, perm=[0, 2, 3, 1])


def _contract(build: _Builder, block: Block, x: str, reach: Reach | None) -> str:
    """``gamma * (x @ weight + bias)``"""
    if reach is None:
        return _float_product(build, block.contract, x, block.gamma)
    quantiser = gelu_quantiser(reach[block.gelu_output])
    divided = build.node("Mul", x, build.constant(1 / quantiser.divisors))
    quantised = _quantise(build, divided, quantiser)
    return _int8_product(build, block.contract, quantised, quantiser, block.gamma)


def _norm_and_product(
    build: _Builder, norm: Norm, x: str, name: str, linear: Linear, reach: Reach | None
) -> str:
    """``norm(x) @ weight + bias``; ``name`` is the norm's result."""
    return _normed_products(build, norm, x, name, [linear], reach)[0]


def _normed_products(
    build: _Builder, norm: Norm, x: str, name: str, linears: list[Linear], reach: Reach | None
) -> list[str]:
    """Several products of one layer norm."""
    if reach is None:
        y = _norm(build, norm, x, name)
        return [_float_product(build, linear, y) for linear in linears]
    quantiser = norm_quantiser(reach[name])
    divided = Norm(norm.weight / quantiser.divisors, norm.bias / quantiser.divisors, norm.epsilon)
    quantised = _quantise(build, _norm(build, divided, x, name), quantiser)
    return [_int8_product(build, linear, quantised, quantiser) for linear in linears]


def _norm(build: _Builder, norm: Norm, x: str, output: str) -> str:
    weight, bias = build.constant(norm.weight), build.constant(norm.bias)
    return build.node(
        "LayerNormalization", x, weight, bias, output=output, axis=-1, epsilon=norm.epsilon
    )


def _float_product(build: _Builder, linear: Linear, x: str, gains: FloatArray | None = None) -> str:
    factors = np.ones(linear.bias.size, np.float32) if gains is None else gains
    product = build.node("MatMul", x, build.constant(linear.weight * factors))
    return build.node("Add", product, build.constant(linear.bias * factors))


def _quantise(build: _Builder, x: str, quantiser: Quantiser) -> tuple[str, str, str]:
    """The quantised tensor, its scale and its zero point."""
    scale = build.constant(quantiser.scale)
    zero = build.constant(quantiser.zero, np.uint8)
    return build.node("QuantizeLinear", x, scale, zero), scale, zero


def _int8_product(
    build: _Builder,
    linear: Linear,
    quantised: tuple[str, str, str],
    quantiser: Quantiser,
    gains: FloatArray | None = None,
) -> str:
    factors = np.ones(linear.bias.size, np.float32) if gains is None else gains
    weight = equalised_weight(linear, factors, quantiser)
    q, scale, zero = quantised
    return build.node(
        "MatMulIntegerToFloat",
        q,
        build.constant(weight.values, np.int8),
        scale,
        build.constant(weight.scales),
        zero,
        "",
        build.constant(linear.bias * factors),
        domain="com.microsoft",
    )


def _head(build: _Builder, weights: DecoderWeights, x: str, reach: Reach | None) -> None:
    shape = build.constant([-1, weights.input_bias.size], np.int64)
    rows = build.node("Reshape", x, shape)
    lh, theta, ln, lr, phi = (
        slice(first, first + NUM_BINS) for first in range(0, 5 * NUM_BINS, NUM_BINS)
    )
    parts = [_columns(weights.head, np.r_[each]) for each in ((lh, ln, lr), theta, phi)]
    logs, turn, free = _normed_products(
        build, weights.norm, rows, weights.norm_output, parts, reach
    )
    clipped = build.node("Clip", logs, "", build.constant(MAX_LOG_MAGNITUDE))
    build.node("Exp", clipped, output="magnitude")
    build.node("Tanh", turn, output="harmonic_phase")
    build.node("Identity", free, output="free_phase")


def _columns(head: Linear, columns: npt.NDArray[np.intp]) -> Linear:
    return Linear(head.weight[:, columns], head.bias[columns])
