"""Runs the streaming decoder: one session for all sentences, a small state for each.

``Decoder`` is stateless and thread-safe; ``DecoderStream`` belongs to one sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from worker.models.hibari.decoder_graph import build_decoder, build_prosody, build_taps
from worker.models.hibari.graphs import KERNEL, PITCH_SCALE, VoiceGraph
from worker.models.hibari.quantise import Reach
from worker.models.hibari.sessions import open_session

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]

HALF_KERNEL = KERNEL // 2


@dataclass(frozen=True, slots=True)
class Spectra:
    """Decoded frames, m rows."""

    magnitude: FloatArray
    """[m, 1803]: harmonic, noise and free branch, 601 bins each."""
    harmonic_phase: FloatArray
    """[m, 601] half turns, -1 to 1"""
    free_phase: FloatArray
    """[m, 601] radians"""


@dataclass(frozen=True, slots=True)
class DecoderInput:
    """What the decoder reads of a sentence of F frames."""

    tap_rows: IntArray
    """[F, 7] rows of ``taps``"""
    prosody: FloatArray
    """[F, C] the first convolution's share of pitch and energy, with its bias"""
    taps: FloatArray
    """[R, C]"""


class Decoder:
    """The decoder of one voice."""

    def __init__(self, voice: VoiceGraph, reach: Reach | None) -> None:
        self._text = open_session(build_taps(voice))
        self._prosody = open_session(build_prosody(voice.decoder))
        self._session = open_session(build_decoder(voice.decoder, reach))
        self.num_layers = len(voice.decoder.blocks)
        self.num_channels = voice.decoder.input_bias.size

    def prepare(
        self, ids: IntArray, durations: npt.NDArray[np.int32], f0: FloatArray, energy: FloatArray
    ) -> DecoderInput:
        """Everything that the decoder reads of a sentence.

        Args:
            ids: [L] phoneme ids with both pads.
            durations: [L] in units of 25 ms (two frames).
            f0: [F] Hz, F = 2 * sum(durations).
            energy: [F].
        """
        return self.lay_out(self.read_text(ids), durations, f0, energy)

    def read_text(self, ids: IntArray) -> FloatArray:
        """``DecoderInput.taps`` of a sentence's ids [L], which no duration or pitch changes."""
        taps: FloatArray = self._text.run(["taps"], {"ids": ids[None]})[0]
        return taps

    def lay_out(
        self,
        taps: FloatArray,
        durations: npt.NDArray[np.int32],
        f0: FloatArray,
        energy: FloatArray,
    ) -> DecoderInput:
        """What the decoder reads of a sentence whose text was read.

        Of a sentence that is known up to some phoneme only, all but the last three frames are as
        they will be.
        """
        (prosody,) = self._prosody.run(["prosody"], {"curves": _curves(f0, energy)})
        return DecoderInput(_tap_rows(durations, taps.shape[0] - 1), prosody, taps)

    def start_state(self) -> FloatArray:
        """State at the beginning of a sentence."""
        return np.zeros((self.num_layers, HALF_KERNEL, 1, self.num_channels), np.float32)

    def feed_whole(self, given: DecoderInput) -> dict[str, npt.NDArray[Any]]:
        """What ``run`` takes to decode a sentence at once."""
        return self.feed(given, 0, given.prosody.shape[0], self.start_state())

    def feed(
        self, given: DecoderInput, start: int, stop: int, state: FloatArray
    ) -> dict[str, npt.NDArray[Any]]:
        """What ``run`` takes to decode the frames from ``start`` to ``stop``."""
        rows = HALF_KERNEL if stop == given.prosody.shape[0] else 0
        return {
            "tap_rows": given.tap_rows[start:stop],
            "prosody": given.prosody[start:stop],
            "taps": given.taps,
            "state": state,
            "end": np.zeros((1, rows, 1, self.num_channels), np.float32),
        }

    def run(self, feed: dict[str, npt.NDArray[Any]]) -> tuple[Spectra, FloatArray]:
        """One call of the decoder's graph (see ``build_decoder``); returns spectra and state."""
        magnitude, harmonic_phase, free_phase, state = self._session.run(None, feed)
        return Spectra(magnitude, harmonic_phase, free_phase), state


def _curves(f0: FloatArray, energy: FloatArray) -> FloatArray:
    """Pitch and energy as the decoder reads them, seven taps of each per frame: [F, 14]."""
    pitch = np.log1p(np.maximum(f0, 0))
    padded = np.pad(np.stack([pitch, energy]), ((0, 0), (HALF_KERNEL, HALF_KERNEL)))
    padded /= np.float32(PITCH_SCALE)
    windows = np.lib.stride_tricks.sliding_window_view(padded, KERNEL, axis=1)
    return windows.transpose(1, 0, 2).reshape(f0.size, 2 * KERNEL)


def _tap_rows(durations: npt.NDArray[np.int32], row_beyond: int) -> IntArray:
    """Rows of the taps table for each frame: of the phoneme that each tap of the kernel meets.

    ``row_beyond`` is what a tap beyond the sentence meets.
    """
    phonemes = np.repeat(np.arange(durations.size), 2 * durations)
    padded = np.pad(phonemes, HALF_KERNEL, constant_values=-1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, KERNEL)
    rows = windows * KERNEL + np.arange(KERNEL)
    rows[windows < 0] = row_beyond
    return np.asarray(rows, np.int64)


class DecoderStream:
    """Decodes one sentence from its first frame to its last.

    Frames come out ``lag`` behind those that went in, until the last went in.
    """

    def __init__(self, decoder: Decoder, given: DecoderInput) -> None:
        self._decoder = decoder
        self._given = given
        self._state = decoder.start_state()
        self.lag = HALF_KERNEL * decoder.num_layers
        self.position = 0
        """Frames that went in."""

    @property
    def num_frames(self) -> int:
        """Frames of the sentence, as far as it is known."""
        return int(self._given.prosody.shape[0])

    def extend(self, given: DecoderInput) -> None:
        """More of the sentence is known: ``given`` goes on where the input before ended.

        Of what was not the whole, all but the last three frames may have gone in.
        """
        self._given = given

    @property
    def min_stop(self) -> int:
        """Least ``stop`` of a first push: every layer must see enough frames to fill its state."""
        return min(self.lag + HALF_KERNEL, self.num_frames)

    def push(self, stop: int) -> Spectra:
        """Decode on until the frames before ``stop`` have gone in; returns what came out."""
        feed = self._decoder.feed(self._given, self.position, stop, self._state)
        self.position = stop
        spectra, self._state = self._decoder.run(feed)
        return spectra
