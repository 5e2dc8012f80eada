"""The step loop: poll the transport, schedule, step, route, send. Nothing else.

Steps run on ``steps_in_flight`` threads over disjoint batches; everything else, and all of the
model's other methods, on the loop's thread. A message for a request whose step is running waits
until the step has ended.

A suspect, and all that comes for it, is held back until the orchestrator has granted it a trial:
then it is known whom to blame if this process dies. In its trial the suspect is added and stepped
while nothing else runs. The trial ends when the suspect is past what it had done before, or cannot
run.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from engine.messages import (
    Fingerprint,
    Ping,
    Pong,
    StageAbort,
    StageCredit,
    StageInteraction,
    StageOutput,
    StagePause,
    StageReleased,
    StageRequest,
    StageResume,
    StageUpdate,
    StepFailed,
    Stop,
    ToReplica,
    TrialAsk,
    TrialEnd,
    TrialGrant,
    output_size,
)
from worker.credits import Credits
from worker.failures import describe, stage_error
from worker.liveness import Liveness
from worker.routing import route_step
from worker.scheduler import AudioScheduler
from worker.stage_model import StageContext, StageModel, StepOutput
from worker.transport import Transport
from worker.trials import RequestMessage, Trials

logger = logging.getLogger("voxloom.worker.step_loop")

_POLL_S = 1.0


class StepHangsError(Exception):
    """A step does not end. Its thread cannot be stopped, so this process must be."""


@dataclass(slots=True)
class _StepResult:
    number: int
    batch: list[str]
    output: StepOutput | Exception
    started_at: float  # seconds of CLOCK_MONOTONIC, as is ``ended_at``
    ended_at: float

    @property
    def step_ms(self) -> float:
        return (self.ended_at - self.started_at) * 1000


class StepLoop:
    """A ``ReplicaBackend`` that runs a ``StageModel``."""

    def __init__(
        self,
        model: StageModel,
        context: StageContext,
        transport: Transport,
        *,
        orphan_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._name = context.stage.name
        self._output_type = context.stage.engine_output_type
        self._transport = transport
        self._clock = clock
        self._liveness = Liveness(orphan_timeout_s, clock)
        self._scheduler = AudioScheduler(
            max_batch_size=context.stage.max_batch_size,
            steps_in_flight=context.stage.steps_in_flight,
            sample_rate=context.pipeline.sample_rate,
        )
        self._pool = ThreadPoolExecutor(context.stage.steps_in_flight, "step")
        self._step_timeout_s = context.stage.step_timeout_s
        self._num_steps = 0
        self._running: dict[int, float] = {}  # when each running step began, oldest first
        self._results: deque[_StepResult] = deque()
        self._ready: deque[str] = deque()
        context.readiness.connect(self._note_ready)
        self._deferred: dict[str, list[ToReplica]] = {}
        self._trials = Trials()
        self._credits = Credits()
        self._traces: dict[str, dict[str, str]] = {}
        self._granted: str | None = None
        self._stopping = False

    def fingerprint(self) -> Fingerprint:
        return self._model.fingerprint()

    def run(self) -> None:
        """Work until the orchestrator says stop, or has gone. Raises ``StepHangsError``."""
        while not self._stopping:
            self._transport.wait(_POLL_S)
            for message in self._transport.receive():
                self._handle(message)
            while self._results:
                self._finish_step(self._results.popleft())
            while self._ready:
                self._refresh(self._ready.popleft(), self._clock())
            self._check_trial()
            self._start_steps()
            self._check_steps()
            if self._liveness.is_orphaned:
                break
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- messages --------------------------------------------------------------------------------

    def _handle(self, message: ToReplica) -> None:
        match message:
            case Ping():
                self._liveness.note_ping()
                self._transport.send_control(
                    Pong(message.seq, self._scheduler.num_requests + self._trials.num_held)
                )
            case Stop():
                self._stopping = True
            case StageAbort():
                self._abort(message)
            case TrialGrant():
                self._granted = message.request_id
                self._scheduler.start_trial(message.request_id)
            case _ if self._trials.holds_back(message):
                return
            case _ if self._scheduler.is_running(message.request_id):
                self._deferred.setdefault(message.request_id, []).append(message)
            case _:
                self._handle_request(message)

    def _handle_request(self, message: RequestMessage) -> None:
        now = self._clock()
        request_id = message.request_id
        match message:
            case StageRequest():
                self._add(message, now)
            case StageUpdate() | StageInteraction():
                self._input(message)
            case StagePause():
                self._scheduler.set_paused(request_id, True, now)
            case StageResume():
                self._scheduler.set_paused(request_id, False, now)
            case StageCredit():
                self._credits.grant(request_id, message.credit)
        self._refresh(request_id, now)

    def _add(self, message: StageRequest, now: float) -> None:
        self._credits.add(message)
        self._traces[message.request_id] = message.trace_headers
        try:
            self._scheduler.add(
                message.request_id,
                now,
                priority=message.priority,
                paused=message.paused,
                group_id=message.group_id,
                group_size=message.group_size,
            )
            self._model.add(message)
        except Exception as error:
            self._fail(message.request_id, error)

    def _input(self, message: StageUpdate | StageInteraction) -> None:
        """One more input of a request; one that has ended here takes none."""
        if not self._scheduler.knows(message.request_id):
            return
        try:
            if isinstance(message, StageUpdate):
                self._model.update(message)
            else:
                self._model.interact(message)
        except Exception as error:
            self._fail(message.request_id, error, unit=message.unit)

    def _abort(self, message: StageAbort) -> None:
        """Let go at once; what is in a running step is let go when the step has ended."""
        running = [r for r in message.request_ids if self._scheduler.is_running(r)]
        for request_id in message.request_ids:
            if request_id not in running:
                self._drop(request_id)
        for request_id in running:
            self._deferred.setdefault(request_id, []).append(StageAbort([request_id]))
            self._model.abandon(request_id)
        released = [r for r in message.request_ids if r not in running]
        if released:
            # On the data lane, behind what these requests have sent: after it nothing comes.
            self._transport.send(StageReleased(released))

    # --- trials ----------------------------------------------------------------------------------

    def _check_trial(self) -> None:
        """Start the trial that was granted, end one that has served, ask for the next."""
        if self._granted is not None and self._scheduler.is_idle:
            self._start_trial(self._granted)
        running = self._trials.running
        if running is not None and self._has_served(running):
            self._trials.end()
            self._scheduler.end_trial()
            self._transport.send_control(TrialEnd(running))
        asked = self._trials.ask()
        if asked is not None:
            self._transport.send_control(TrialAsk(asked))

    def _start_trial(self, request_id: str) -> None:
        """Take in what was held back for the suspect; nothing else runs now."""
        self._granted = None
        for message in self._trials.start(request_id):
            self._handle_request(message)

    def _has_served(self, request_id: str) -> bool:
        if self._scheduler.is_running(request_id):
            return False
        return self._trials.is_passed or not self._scheduler.can_run(request_id)

    # --- steps -----------------------------------------------------------------------------------

    def _start_steps(self) -> None:
        while batch := self._scheduler.schedule(self._clock()):
            self._num_steps += 1
            self._running[self._num_steps] = self._clock()
            self._pool.submit(self._step, self._num_steps, batch)

    def _check_steps(self) -> None:
        """Pings are answered whatever a step does: one that hangs has to be noticed here."""
        oldest = next(iter(self._running.values()), None)
        if oldest is not None and self._clock() - oldest > self._step_timeout_s:
            raise StepHangsError(f"a step has not ended within {self._step_timeout_s:g} s")

    def _step(self, number: int, batch: list[str]) -> None:
        """Runs on a step thread."""
        started_at = time.monotonic()
        output: StepOutput | Exception
        try:
            output = self._model.step(batch)
        except Exception as error:
            output = error
        self._results.append(_StepResult(number, batch, output, started_at, time.monotonic()))
        self._transport.wake()

    def _finish_step(self, result: _StepResult) -> None:
        now = self._clock()
        del self._running[result.number]
        logger.debug(
            "%s stepped from %.6f to %.6f: %s",
            self._name,
            result.started_at,
            result.ended_at,
            result.batch,
        )
        self._scheduler.step_done(result.batch, now)
        if isinstance(result.output, Exception):
            self._fail_step(result.batch, result.output)
        else:
            self._send_output(result, result.output, now)
        for request_id in result.batch:
            self._refresh(request_id, now)
            for message in self._deferred.pop(request_id, ()):
                self._handle(message)

    def _fail_step(self, batch: list[str], error: Exception) -> None:
        """What was stepped alone is to blame; of several, nobody knows which."""
        logger.error("a step failed", exc_info=error)
        if self._scheduler.is_one_unit(batch):
            for request_id in batch:
                self._fail(request_id, error)
            return
        for request_id in batch:
            self._drop(request_id)
        self._transport.send(StepFailed(batch, describe(error)))

    def _send_output(self, result: _StepResult, output: StepOutput, now: float) -> None:
        aborted = {
            request_id
            for request_id in result.batch
            for message in self._deferred.get(request_id, ())
            if isinstance(message, StageAbort)
        }
        routed = route_step(self._output_type, result.batch, output)
        rows = [row for row in routed.rows if row.request_id not in aborted]
        self._transport.send(
            StageOutput(rows, len(result.batch), routed.num_routed_rows, result.step_ms)
        )
        for row in rows:
            is_audio = self._output_type == "audio"
            self._credits.use(row.request_id, output_size(is_audio, row.payload, row.num_samples))
            if row.payload is not None:
                num_samples = row.num_samples if self._output_type == "audio" else 0
                self._scheduler.output_sent(row.request_id, num_samples, now)
                self._trials.note_output(row.request_id, row.start_sample + row.num_samples)
            if row.finished:
                self._scheduler.finish(row.request_id)
                self._credits.drop(row.request_id)
                self._traces.pop(row.request_id, None)
                self._model.abort(row.request_id)
        for request_id, error in routed.errors.items():
            self._fail(request_id, error)

    # --- small things ----------------------------------------------------------------------------

    def _fail(self, request_id: str, error: Exception, unit: int | None = None) -> None:
        """One request's failure is that request's alone."""
        if not self._scheduler.knows(request_id):
            return
        trace = self._traces.get(request_id)
        self._drop(request_id)
        self._transport.send(stage_error(request_id, error, unit, trace))

    def _drop(self, request_id: str) -> None:
        self._trials.drop(request_id)
        self._credits.drop(request_id)
        self._traces.pop(request_id, None)
        self._scheduler.remove(request_id)
        self._model.abort(request_id)

    def _note_ready(self, request_id: str) -> None:
        """Called on a thread of the model's."""
        self._ready.append(request_id)
        self._transport.wake()

    def _refresh(self, request_id: str, now: float) -> None:
        if self._scheduler.knows(request_id):
            can_run = self._credits.allows(request_id) and self._model.has_work(request_id)
            self._scheduler.set_runnable(request_id, can_run, now)
