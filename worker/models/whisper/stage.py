"""The stage that writes down speech: a unit of what was heard in, its transcript out.

A unit without speech makes no output. A *guess* is recognised before it is sure that the turn is
over: its transcript is kept until the unit comes that ends the turn, and used if nothing was said
after it. While somebody else's turn waits no guess is recognised.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from engine.messages import Fingerprint, Payload, StageRequest, StageUpdate
from worker.models.whisper.recogniser import (
    SAMPLE_RATE,
    Recogniser,
    Recognition,
    RecognitionStoppedError,
    Transcript,
    WhisperOptions,
    language_name,
)
from worker.rows import UnitStage
from worker.stage_model import RowStatus, StageContext


@dataclass(slots=True)
class _Request:
    """``position`` counts transcripts. ``language`` is what a recording was found to be in.

    ``num_waiting`` counts the units in the queue that must be recognised; guesses need not be.
    """

    is_open: bool
    first_unit: int
    position: int
    skip_position: int
    units_done: int
    done_position: int
    queue: deque[StageUpdate] = field(default_factory=deque)
    num_waiting: int = 0
    guess: tuple[int, Transcript] | None = None
    language: str | None = None
    is_abandoned: bool = False

    @property
    def has_work(self) -> bool:
        return bool(self.queue) or not self.is_open

    def status(self) -> RowStatus:
        return RowStatus(
            finished=not (self.is_open or self.queue),
            end_position=max(self.position, self.skip_position),
            units_done=self.units_done,
            done_position=self.done_position,
        )

    def put(self, update: StageUpdate) -> None:
        self.queue.append(update)
        self.num_waiting += _is_wanted(update.payload["heard"])

    def next_heard(self) -> Payload | None:
        """The next unit that has speech worth recognising; those before it are done with."""
        while self.queue:
            update = self.queue.popleft()
            self.units_done = update.unit + 1
            heard: Payload = update.payload["heard"]
            self.num_waiting -= _is_wanted(heard)
            if heard["speech"] is not None and not self._is_outdated(heard):
                return heard
        return None

    def _is_outdated(self, heard: Payload) -> bool:
        """A guess after which more of the same turn has been heard already."""
        if heard["kind"] != "guess":
            return False
        later = [update.payload["heard"] for update in self.queue if update.payload]
        return any(h["speech"] is not None and h["guess"] != heard["guess"] for h in later)


class WhisperStage(UnitStage[_Request]):
    """One chunk or turn per request and step."""

    output_name = "transcript"

    def __init__(self, recogniser: Recogniser) -> None:
        super().__init__()
        self._recogniser = recogniser

    def add(self, request: StageRequest) -> None:
        self._rows[request.request_id] = _Request(
            is_open=True,
            first_unit=request.first_unit,
            position=request.start_position,
            skip_position=request.skip_position,
            units_done=request.first_unit,
            done_position=request.start_position,
        )

    def update(self, update: StageUpdate) -> None:
        """More that was heard. Raises ``InvalidRequestError`` for what the weights cannot do."""
        request = self._rows[update.request_id]
        request.is_open = not update.final
        if update.unit >= request.first_unit and update.payload:
            self._recogniser.check(_wanted(update.payload["heard"]))
            request.put(update)

    def abandon(self, request_id: str) -> None:
        self._rows[request_id].is_abandoned = True

    def fingerprint(self) -> Fingerprint:
        return self._recogniser.fingerprint()

    def next_unit(self, row: _Request) -> Payload | None:
        heard = row.next_heard()
        if heard is None or (heard["kind"] == "guess" and self._others_wait(row)):
            row.done_position = row.position
            return None
        try:
            transcript = self._transcribe(row, heard)
        except RecognitionStoppedError:
            return None
        if heard["kind"] == "guess":
            row.guess = (heard["guess"], transcript)
            row.done_position = row.position
            return None
        row.guess = None
        row.position += 1
        row.done_position = row.position
        if row.position <= row.skip_position:
            return None
        return _payload(heard, transcript)

    def _others_wait(self, row: _Request) -> bool:
        # A copy: rows come and go on another thread.
        return any(other.num_waiting for other in list(self._rows.values()) if other is not row)

    def _transcribe(self, request: _Request, heard: Payload) -> Transcript:
        if request.guess is not None and request.guess[0] == heard["guess"]:
            return request.guess[1]
        wanted = _wanted(heard)
        if heard["kind"] == "chunk" and wanted.language is None:
            wanted = msgspec.structs.replace(wanted, language=request.language)
        offset_s = heard["first_sample"] / SAMPLE_RATE
        transcript = self._recogniser.recognise(
            heard["speech"],
            wanted,
            offset_s,
            is_speech=heard["is_detected"],
            is_wanted=lambda: not request.is_abandoned,
        )
        if transcript.segments:
            request.language = transcript.language
        return transcript


def load(context: StageContext) -> WhisperStage:
    """The stage, with its weights. Raises ``ConfigError`` if they cannot be had."""
    options = context.read_options(WhisperOptions)
    recogniser = Recogniser(options, context.stage.steps_in_flight)
    recogniser.check_promised(context.pipeline.options.get("languages", []))
    recogniser.warm_up()
    return WhisperStage(recogniser)


def _is_wanted(heard: Payload) -> bool:
    """Whether somebody will wait for the words of this unit."""
    return heard["speech"] is not None and heard["kind"] != "guess"


def _wanted(heard: Payload) -> Recognition:
    return msgspec.convert(heard["recognition"], Recognition)


def _payload(heard: Payload, transcript: Transcript) -> dict[str, Any]:
    """``text`` is that of all segments, without the space in front."""
    return {
        "kind": heard["kind"],
        "first_sample": heard["first_sample"],
        "last_sample": heard["last_sample"],
        "language": transcript.language,
        "language_name": language_name(transcript.language),
        "text": "".join(segment["text"] for segment in transcript.segments).strip(),
        "segments": transcript.segments,
    }
