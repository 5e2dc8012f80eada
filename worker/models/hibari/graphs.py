"""Reads a hibari voice file: where its graph can be cut, and the weights of its decoder.

Every hibari voice is one ONNX graph: two text encoders, a duration and prosody net, and a decoder
that turns 80 Hz frames into five spectral parts. This module finds the seams by following the
graph's structure backwards from its outputs (names differ between exports, shapes of the path do
not), and takes the decoder apart into plain arrays, from which ``decoder.py`` builds another graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from engine.errors import ConfigError

FloatArray = npt.NDArray[np.float32]

SPECTRAL_PARTS = ("lh", "theta", "ln", "lr", "phi")
"""Outputs of the decoder, in the order of the head's columns: log harmonic magnitude, harmonic
phase (before tanh), log noise magnitude, log free-branch magnitude, free-branch phase."""

NUM_BINS = 601
"""Spectral bins of a frame: n_fft 1200 at 24 kHz."""

PITCH_SCALE = 5.0
"""The decoder sees log(1 + relu(f0)) and energy, both divided by this."""

KERNEL = 7
"""Taps of every convolution in the decoder."""


@dataclass(frozen=True, slots=True)
class Linear:
    """One matrix product: ``y = x @ weight + bias``."""

    weight: FloatArray
    """[in, out]; int8 in the voice file, as a rule."""
    bias: FloatArray
    """[out]"""


@dataclass(frozen=True, slots=True)
class Norm:
    """Layer normalisation over channels."""

    weight: FloatArray
    bias: FloatArray
    epsilon: float


@dataclass(frozen=True, slots=True)
class Block:
    """One ConvNeXt block: depthwise conv, norm, expand, GELU, contract, gamma, residual."""

    conv_weight: FloatArray
    """[channels, 1, 7]"""
    conv_bias: FloatArray
    norm: Norm
    expand: Linear
    contract: Linear
    gamma: FloatArray
    """[channels]"""
    norm_output: str
    """Name in the voice file of the tensor that ``expand`` quantises."""
    gelu_output: str
    """Name in the voice file of the tensor that ``contract`` quantises."""


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """The decoder of a voice as arrays."""

    input_weight: FloatArray
    """[channels, text channels + 2, 7]; the last two input channels are pitch and energy."""
    input_bias: FloatArray
    blocks: tuple[Block, ...]
    norm: Norm
    norm_output: str
    head: Linear
    """[channels, 5 * 601], parts in the order of ``SPECTRAL_PARTS``."""

    @property
    def activations(self) -> list[str]:
        """Names in the voice file of the tensors that are quantised, in the order of the layers."""
        pairs = [(block.norm_output, block.gelu_output) for block in self.blocks]
        return [name for pair in pairs for name in pair] + [self.norm_output]


@dataclass(frozen=True, slots=True)
class Seams:
    """Names of the tensors at which the voice's graph is cut."""

    text: str
    """[1, text channels, L] float32: the decoder's text features."""
    durations: str
    """[L] int64, units of 25 ms."""
    f0: str
    """[1, F] float32, Hz."""
    energy: str
    """[1, F] float32."""


@dataclass(frozen=True, slots=True)
class VoiceGraph:
    """A voice file that proved to have the hibari form."""

    model: onnx.ModelProto
    seams: Seams
    decoder: DecoderWeights

    def cut(self, inputs: Iterable[str], outputs: dict[str, int]) -> onnx.ModelProto:
        """The part of the graph between the graph inputs named and ``outputs``.

        Args:
            inputs: names of graph inputs to keep.
            outputs: tensor name to ONNX element type.
        """
        graph = self.model.graph
        wanted = set(outputs)
        nodes = []
        for node in reversed(graph.node):
            if wanted.intersection(node.output):
                nodes.append(node)
                wanted.update(node.input)
        part = onnx.helper.make_graph(
            nodes[::-1],
            "part",
            [value for value in graph.input if value.name in set(inputs)],
            [
                onnx.helper.make_tensor_value_info(name, kind, None)
                for name, kind in outputs.items()
            ],
            [tensor for tensor in graph.initializer if tensor.name in wanted],
            # onnxruntime chooses other fusions without these, which moves the last bit.
            value_info=[value for value in graph.value_info if value.name in wanted],
        )
        return onnx.helper.make_model(
            part, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )


def read_voice(path: str | Path) -> VoiceGraph:
    """Read a voice file and check that it has the hibari form.

    Raises:
        ConfigError: the file cannot be read, is no ONNX model, or is not a hibari voice.
    """
    try:
        model = onnx.load(str(path))
    except Exception as error:
        raise ConfigError(f"{path} cannot be read as an ONNX model: {error}") from error
    try:
        return _VoiceReader(model).read()
    except _FormError as error:
        raise ConfigError(f"{path} is not a hibari voice: {error}") from error


class _FormError(Exception):
    """The graph lacks something that every hibari voice has."""


class _VoiceReader:
    """Follows the graph backwards from its outputs."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._producers = {name: node for node in model.graph.node for name in node.output}
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            if node.op_type == "Constant":
                self._tensors[node.output[0]] = node.attribute[0].t

    def read(self) -> VoiceGraph:
        inputs = [value.name for value in self._model.graph.input]
        outputs = {value.name for value in self._model.graph.output}
        missing = [name for name in (*SPECTRAL_PARTS, "f0") if name not in outputs]
        if inputs != ["ids", "speed"] or missing:
            raise _FormError(
                "its inputs must be ids and speed, its outputs lh, theta, ln, lr, phi and f0"
            )
        head, norm_output, norm, name = self._read_head()
        blocks: list[Block] = []
        while self._producer(name, "Conv", "Add").op_type == "Add":
            block, name = self._read_block(name)
            blocks.insert(0, block)
        conv = self._producer(name, "Conv")
        decoder = DecoderWeights(
            self._array(conv.input[1]),
            self._array(conv.input[2]),
            tuple(blocks),
            norm,
            norm_output,
            head,
        )
        _check_shapes(decoder)
        return VoiceGraph(self._model, self._read_seams(conv.input[0]), decoder)

    def _producer(self, name: str, *kinds: str) -> onnx.NodeProto:
        node: onnx.NodeProto | None = self._producers.get(name)
        if node is None or node.op_type not in kinds:
            found = "nothing" if node is None else node.op_type
            raise _FormError(f"{name} should come from {' or '.join(kinds)}, not from {found}")
        return node

    def _back(self, name: str, *kinds: str) -> str:
        """Name of the first input after stepping back through nodes of the kinds given."""
        for kind in kinds:
            node = self._producer(name, kind)
            name = next((each for each in node.input if each not in self._tensors), node.input[0])
        return name

    def _array(self, name: str) -> npt.NDArray[Any]:
        if name not in self._tensors:
            raise _FormError(f"{name} should be a constant")
        return np.asarray(numpy_helper.to_array(self._tensors[name]))

    def _constant_input(self, node: onnx.NodeProto) -> npt.NDArray[Any]:
        for name in node.input:
            if name in self._tensors:
                return self._array(name)
        raise _FormError(f"{node.output[0]} should have a constant input")

    def _read_linear(self, name: str) -> tuple[Linear, str]:
        """The product whose biased result is ``name``, and the tensor that it takes."""
        bias = self._constant_input(self._producer(name, "Add"))
        product = self._producer(self._back(name, "Add"), "Mul", "MatMul")
        if product.op_type == "MatMul":
            return Linear(self._array(product.input[1]), bias), product.input[0]
        weight, source = self._read_int8_product(product)
        return Linear(weight, bias), source

    def _read_int8_product(self, scaled: onnx.NodeProto) -> tuple[FloatArray, str]:
        """The weight of a quantised product, as float32, and the tensor that it takes."""
        product = self._producer(self._producer(scaled.input[0], "Cast").input[0], "MatMulInteger")
        quantised = self._producer(product.input[0], "DynamicQuantizeLinear")
        scale = self._constant_input(self._producer(scaled.input[1], "Mul"))
        levels = self._array(product.input[1]).astype(np.float32)
        levels -= self._array(product.input[3])
        return np.asarray(levels * scale, np.float32), quantised.input[0]

    def _read_norm(self, name: str) -> tuple[Norm, str]:
        node = self._producer(name, "LayerNormalization")
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-5)
        return Norm(self._array(node.input[1]), self._array(node.input[2]), epsilon), node.input[0]

    def _read_head(self) -> tuple[Linear, str, Norm, str]:
        split = self._producer("lh", "Split")
        if tuple(split.output) != SPECTRAL_PARTS:
            raise _FormError(f"the spectral parts should be split as {', '.join(SPECTRAL_PARTS)}")
        head, norm_output = self._read_linear(self._back(split.input[0], "Transpose"))
        norm, name = self._read_norm(norm_output)
        return head, norm_output, norm, self._back(name, "Transpose")

    def _read_block(self, name: str) -> tuple[Block, str]:
        """The block whose result is ``name``, and the name of what it takes."""
        skip, branch = self._producer(name, "Add").input
        scaled = self._producer(self._producer(branch, "Transpose").input[0], "Mul")
        contract, gelu_output = self._read_linear(self._back(scaled.output[0], "Mul"))
        expand, norm_output = self._read_linear(self._before_gelu(gelu_output))
        norm, name = self._read_norm(norm_output)
        conv = self._producer(self._back(name, "Transpose"), "Conv")
        if conv.input[0] != skip:
            raise _FormError(f"{branch} should be added to what {conv.output[0]} reads")
        block = Block(
            self._array(conv.input[1]),
            self._array(conv.input[2]),
            norm,
            expand,
            contract,
            self._constant_input(scaled),
            norm_output,
            gelu_output,
        )
        return block, skip

    def _before_gelu(self, name: str) -> str:
        """The tensor x of ``x * (1 + erf(x / sqrt 2)) * 0.5``."""
        product = self._producer(self._back(name, "Mul"), "Mul")
        gate = self._back(product.input[1], "Add", "Erf", "Div")
        if gate != product.input[0]:
            raise _FormError(f"{name} should be a GELU")
        return gate

    def _read_seams(self, name: str) -> Seams:
        text, pitch, energy = self._producer(name, "Concat").input
        for each in (pitch, energy):
            divisor = self._constant_input(self._producer(each, "Div"))
            if float(divisor) != PITCH_SCALE:
                raise _FormError(f"{each} should be divided by {PITCH_SCALE:g}")
        f0 = self._back(pitch, "Div", "Unsqueeze", "Log", "Add", "Relu")
        if f0 != "f0":
            raise _FormError("the decoder should read the output f0")
        gather = self._producer(self._back(text, "Reshape", "Tile", "Unsqueeze"), "Gather")
        positions = self._back(gather.input[1], "ReduceSum", "Cast")
        durations = self._producer(positions, "GreaterOrEqual").input[1]
        return Seams(
            gather.input[0],
            self._back(durations, "Unsqueeze", "CumSum"),
            f0,
            self._back(energy, "Div", "Unsqueeze"),
        )


def _check_shapes(decoder: DecoderWeights) -> None:
    channels, _, taps = decoder.input_weight.shape
    conv_shape = (channels, 1, KERNEL)
    if not decoder.blocks or taps != KERNEL:
        raise _FormError(f"its decoder should begin with a convolution of {KERNEL} taps")
    if any(block.conv_weight.shape != conv_shape for block in decoder.blocks):
        raise _FormError(f"its decoder's depthwise convolutions should have shape {conv_shape}")
    if decoder.head.weight.shape != (channels, NUM_BINS * len(SPECTRAL_PARTS)):
        raise _FormError(f"its decoder should end in 5 parts of {NUM_BINS} bins")
