"""What a hibari voice would say without quantisation in its decoder, in the plainest way.

The decoder is the voice file's own graph with each int8 product of the decoder replaced by a float
one; the vocoder takes the library's pulses and works on the whole sentence in float64. Nothing is
shared with the code under test but the noise.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from hibari import dsp
from onnx import helper, numpy_helper

from tests.worker.models.hibari import bundled
from worker.models.hibari.noise import noise
from worker.models.hibari.sessions import open_session

DoubleArray = npt.NDArray[np.float64]

N_FFT, HOP = 1200, 300


def float_products(model: onnx.ModelProto, quantised: set[str]) -> onnx.ModelProto:
    """Replace the products of the tensors named by float ones."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    tensors = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    for node in list(graph.node):
        if node.op_type != "Mul" or node.input[0] not in producers:
            continue
        cast = producers[node.input[0]]
        product = producers.get(cast.input[0]) if cast.op_type == "Cast" else None
        if product is None or product.op_type != "MatMulInteger":
            continue
        source = producers[product.input[0]].input[0]
        if source in quantised:
            scales = producers[node.input[1]].input
            scale = next(tensors[name] for name in scales if name in tensors)
            weight = tensors[product.input[1]].astype(np.float32) * scale
            name = f"{node.output[0]}/float"
            graph.initializer.append(numpy_helper.from_array(weight, name))
            output = node.output[0]
            node.CopyFrom(helper.make_node("MatMul", [source, name], [output]))
    return result


@functools.cache
def _session() -> Any:
    voice = bundled.voice()
    return open_session(
        float_products(voice.model, set(voice.decoder.activations)).SerializeToString()
    )


def spectra(text: str, speed: float) -> tuple[DoubleArray, ...]:
    """lh, theta, ln, lr, phi [F, 601] and f0 [F] of the float decoder."""
    return _run(_session(), text, speed)


def shipped_spectra(text: str, speed: float) -> tuple[DoubleArray, ...]:
    """The same of the voice file as it is."""
    return _run(bundled.bare().sess, text, speed)


def _run(session: Any, text: str, speed: float) -> tuple[DoubleArray, ...]:
    feed = {"ids": bundled.ids(text)[None], "speed": np.array([speed], np.float32)}
    outputs = session.run(["lh", "theta", "ln", "lr", "phi", "f0"], feed)
    return tuple(each[0].T.astype(np.float64) for each in outputs)


def synthesise(parts: tuple[DoubleArray, ...], seed: int) -> DoubleArray:
    """Samples of a whole sentence."""
    lh, theta, ln, lr, phi, f0 = parts
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(N_FFT) / N_FFT)
    padded = np.pad(dsp.pulses(f0.astype(np.float32)), N_FFT // 2, mode="reflect")
    rows = [padded[k * HOP : k * HOP + N_FFT] * window / (N_FFT / 4) for k in range(f0.size)]
    excitation = np.fft.rfft(rows, axis=1)
    random = noise(seed, f0.size).astype(np.float64)
    z = random[:, :601] + 1j * random[:, 601:]
    bins = np.exp(np.minimum(lh, 7) + 1j * np.pi * np.tanh(theta)) * excitation
    bins += np.exp(np.minimum(ln, 7)) * z + np.exp(np.minimum(lr, 7) + 1j * phi)
    total = np.zeros((f0.size + 3) * HOP)
    weight = np.zeros_like(total)
    for k, frame in enumerate(np.fft.irfft(bins, n=N_FFT, axis=1)):
        total[k * HOP : k * HOP + N_FFT] += frame * window
        weight[k * HOP : k * HOP + N_FFT] += window**2
    middle = slice(N_FFT // 2, N_FFT // 2 + f0.size * HOP)
    return np.asarray(total[middle] / np.maximum(weight[middle], 1e-11))
