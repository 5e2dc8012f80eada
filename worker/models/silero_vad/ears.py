"""The ways in which a request's audio is listened to: as a recording, or live.

An ear takes inputs in order and finds units. ``units_done`` says from which input on a replay must
hear again, once all units that were found have left.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from engine.messages import Payload, Prompt, StageInteraction, StageUpdate
from worker.models.silero_vad.chunks import Cut, Span, cut_window
from worker.models.silero_vad.detection import Detection, read_detection
from worker.models.silero_vad.listener import Heard, Listener
from worker.models.silero_vad.probabilities import (
    FRAME_SAMPLES,
    Samples,
    SpeechNet,
    SpeechProbabilities,
)

Input: TypeAlias = StageUpdate | StageInteraction

# Two seconds of a recording take 6 ms: live audio in the same replica waits no longer than that.
_FRAMES_PER_STEP = 64


class Ear(Protocol):
    """See the module."""

    units_done: int

    @property
    def has_input(self) -> bool: ...

    def put(self, item: Input) -> None: ...

    def listen(self) -> list[Payload]:
        """Do a bounded piece of work; the units that it found."""
        ...


@dataclass(slots=True)
class _Scan:
    """A window of a recording that is being looked at."""

    update: StageUpdate
    stream: SpeechProbabilities
    probabilities: list[float] = field(default_factory=list)

    @property
    def audio(self) -> Samples:
        audio: Samples = self.update.payload["audio"]
        return audio

    def advance(self) -> bool:
        """Look at some more; whether that was the rest."""
        begin = len(self.probabilities) * FRAME_SAMPLES
        piece = self.audio[begin : begin + _FRAMES_PER_STEP * FRAME_SAMPLES]
        missing = -len(piece) % FRAME_SAMPLES
        self.probabilities += self.stream.feed(np.pad(piece, (0, missing))).tolist()
        return len(self.probabilities) * FRAME_SAMPLES >= len(self.audio)


class RecordingEar:
    """Cuts windows into chunks. Each window is looked at for itself.

    The last unit of a window has ``next_sample``, where the next window is to begin. Without
    detection settings a chunk may hold several sentences, with them each pause ends one.
    """

    def __init__(self, net: SpeechNet, prompt: Prompt, units_done: int) -> None:
        self.units_done = units_done
        self._net = net
        self._recognition = prompt["recognition"]
        self._detection = read_detection(prompt["detection"])
        self._updates: deque[StageUpdate] = deque()
        self._scan: _Scan | None = None

    @property
    def has_input(self) -> bool:
        return bool(self._updates)

    def put(self, item: Input) -> None:
        if isinstance(item, StageUpdate):
            self._updates.append(item)

    def listen(self) -> list[Payload]:
        if self._scan is None:
            self._scan = _Scan(self._updates[0], SpeechProbabilities(self._net))
        if not self._scan.advance():
            return []
        scan, self._scan = self._scan, None
        update = self._updates.popleft()
        self.units_done = update.unit + 1
        cut = cut_window(
            scan.probabilities,
            len(scan.audio),
            self._detection or Detection(),
            is_last=update.final,
            joins_speech=self._detection is None,
        )
        return self._units(scan.audio, update.payload["first_sample"], cut)

    def _units(self, audio: Samples, offset: int, cut: Cut) -> list[Payload]:
        units = [self._unit(audio, offset, span) for span in cut.chunks]
        if not units:
            units = [self._unit(audio, offset, Span(cut.next_sample, cut.next_sample))]
        units[-1]["next_sample"] = offset + cut.next_sample
        return units

    def _unit(self, audio: Samples, offset: int, span: Span) -> Payload:
        is_empty = span.first == span.last
        first, last = offset + span.first, offset + span.last
        speech = None if is_empty else audio[span.first : span.last]
        heard = Heard("silence" if is_empty else "chunk", first, last, speech)
        return heard.to_payload() | {"recognition": self._recognition}


class LiveEar:
    """Turns of live audio. ``detection`` None: a turn is what comes before a flush."""

    def __init__(self, net: SpeechNet, prompt: Prompt, units_done: int) -> None:
        self.units_done = units_done
        self._net = net
        self._prompt = prompt
        self._listener: Listener | None = None
        self._inputs: deque[Input] = deque()
        # Number of an input, and the sample at which the stream was after it.
        self._taken: deque[tuple[int, int]] = deque()

    @property
    def has_input(self) -> bool:
        return bool(self._inputs)

    def put(self, item: Input) -> None:
        self._inputs.append(item)

    def listen(self) -> list[Payload]:
        item = self._inputs.popleft()
        heard = self._hear(item) if isinstance(item, StageUpdate) else self._interact(item)
        self._note_taken(item.unit)
        return [h.to_payload() | {"recognition": self._prompt["recognition"]} for h in heard]

    def _hear(self, update: StageUpdate) -> list[Heard]:
        payload = update.payload
        audio = payload.get("audio")
        if self._listener is None:
            self._listener = Listener(
                self._net,
                read_detection(self._prompt["detection"]),
                guesses=self._prompt["guesses"],
                start=payload.get("first_sample", 0),
            )
        if payload.get("clear"):
            self._listener.clear()
        heard = [] if audio is None else self._listener.feed(audio)
        return heard + self._listener.finish() if update.final else heard

    def _interact(self, interaction: StageInteraction) -> list[Heard]:
        if interaction.kind == "flush":
            return [] if self._listener is None else self._listener.commit()
        self._prompt = self._prompt | interaction.arguments
        if self._listener is not None:
            self._listener.set_detection(read_detection(self._prompt["detection"]))
        return []

    def _note_taken(self, unit: int) -> None:
        if self._listener is None:
            return
        self._taken.append((unit, self._listener.end))
        settled = self._listener.settled_sample()
        while settled is not None and self._taken and self._taken[0][1] <= settled:
            self.units_done = self._taken.popleft()[0] + 1


def open_ear(net: SpeechNet, prompt: dict[str, Any], units_done: int) -> Ear:
    """The ear that the prompt's ``mode`` asks for."""
    kind = LiveEar if prompt["mode"] == "live" else RecordingEar
    return kind(net, prompt, units_done)
