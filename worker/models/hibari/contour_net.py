"""The second half of a voice's prosody net: pitch and energy under durations that are given.

The net first reads the phonemes (``read``: features of the whole sentence, and its own rhythm),
then stretches the features over 25 ms frames and runs convolutions over those (``run``). Cut there,
it says how its voice would speak a sentence in another rhythm, or a part of the sentence alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper

from engine.errors import ConfigError
from worker.models.hibari.graphs import VoiceGraph
from worker.models.hibari.sessions import open_session

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

REACH_UNITS = 54
"""How far, in units of 25 ms, a frame of the convolutions sees: six of 7 taps with dilations 1, 2,
4, 8, 1 and 2."""


@dataclass(frozen=True, slots=True)
class ReadText:
    """What the net makes of a sentence's phonemes."""

    features: FloatArray
    """[L, C]"""
    durations: IntArray
    """[L] its own, in units of 25 ms at the speed that was asked."""


class ContourNet:
    """Stateless and thread-safe."""

    def __init__(self, voice: VoiceGraph) -> None:
        self._durations = voice.seams.durations
        gather = _stretching(voice)
        self._features = gather.input[0]
        kinds: dict[str, int] = {
            self._features: TensorProto.FLOAT,
            self._durations: TensorProto.INT64,
        }
        reader = voice.cut(["ids", "speed"], kinds)
        self._reader = open_session(reader.SerializeToString())
        self._outputs = ["f0", voice.seams.energy]
        self._stretched = gather.output[0]
        self._contour = open_session(_cut_contour(voice, self._stretched, self._outputs))

    def read(self, ids: IntArray, speed: float) -> ReadText:
        """Features and durations for phoneme ids [L] with both pads."""
        feed = {"ids": ids[None], "speed": np.array([speed], np.float32)}
        features, durations = self._reader.run([self._features, self._durations], feed)
        return ReadText(np.ascontiguousarray(features[0].T), durations.reshape(-1))

    def run(self, features: FloatArray, durations: npt.NDArray[np.int32]) -> FloatArray:
        """Pitch in Hz and energy, [2, 2 * sum(durations)], of L phonemes that follow each other.

        Args:
            features: [L, C] rows of ``ReadText.features``.
            durations: [L] units of 25 ms.
        """
        stretched = np.repeat(features, durations, axis=0).T[None]
        f0, energy = self._contour.run(self._outputs, {self._stretched: stretched})
        return np.concatenate([f0, energy])


def _stretching(voice: VoiceGraph) -> onnx.NodeProto:
    """The node that repeats the prosody net's features over frames."""
    gathers = [node for node in voice.model.graph.node if node.op_type == "Gather"]
    positions = next(node.input[1] for node in gathers if node.input[0] == voice.seams.text)
    for node in gathers:
        if node.input[1] == positions and node.input[0] != voice.seams.text:
            return node
    raise ConfigError("not a hibari voice: its prosody net does not stretch features over frames")


def _cut_contour(voice: VoiceGraph, stretched: str, outputs: list[str]) -> bytes:
    model = voice.cut([], dict.fromkeys(outputs, TensorProto.FLOAT))
    part = onnx.ModelProto()
    part.CopyFrom(model)
    given = helper.make_tensor_value_info(stretched, TensorProto.FLOAT, [1, "C", "T"])
    part.graph.input.append(given)
    _drop_unused(part.graph, stretched)
    return bytes(part.SerializeToString())


def _drop_unused(graph: onnx.GraphProto, given: str) -> None:
    """Remove what only made the tensor that is now an input."""
    wanted = {value.name for value in graph.output}
    kept = []
    for node in reversed(graph.node):
        if wanted.intersection(node.output) and given not in node.output:
            kept.append(node)
            wanted.update(node.input)
    del graph.node[:]
    graph.node.extend(kept[::-1])
    tensors = [tensor for tensor in graph.initializer if tensor.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(tensors)
