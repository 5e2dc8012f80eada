"""The engine: what endpoints and programs call to turn prompts into audio.

Input processing happens in the caller's process; everything after it in the orchestrator's thread
and the replicas' processes. Outputs come back by request id.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from engine.admission import AdmissionController, AdmissionTicket
from engine.config import EngineConfig
from engine.errors import (
    DuplicateRequestError,
    InvalidRequestError,
    UnavailableError,
    UnknownRequestError,
    error_from_code,
)
from engine.input_processor import AddRequest, InputProcessor, remove_artifacts
from engine.messages import (
    AbortedMessage,
    AbortMessage,
    AckMessage,
    ConsumedMessage,
    DrainMessage,
    ErrorMessage,
    OutputMessage,
    Prompt,
    SamplingParams,
    ScaleMessage,
    ShutdownMessage,
    ToCaller,
)
from engine.metrics import EngineMetrics
from engine.orchestrator.core import OrchestratorCore
from engine.orchestrator.runtime import Orchestrator
from engine.orchestrator.snapshot import Snapshot
from engine.output_queue import OutputQueue, is_terminal
from engine.outputs import InteractionResult, OmniRequestOutput
from engine.pipeline import PipelineConfig, Voice, load_voices

T = TypeVar("T")

# Input processing is pure Python: more threads than this would only take turns.
_NUM_INPUT_THREADS = 2
_CENSUS_TIMEOUT_S = 10.0


@dataclass(slots=True)
class _OpenRequest:
    """The caller's side of a request: from its submission until its terminal message is read."""

    queue: OutputQueue
    ticket: AdmissionTicket
    resumable: bool
    warnings: tuple[str, ...]
    artifact_dirs: tuple[Path, ...]
    is_live: bool = True
    ended: list[Callable[[], None]] = field(default_factory=list)


class AsyncOmniEngine:
    """See the methods. Thread-safe: any thread and any event loop may call it."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig | None = None) -> None:
        self.pipeline = pipeline
        self.config = config or EngineConfig()
        self.voices = load_voices(pipeline)
        self._inputs = InputProcessor(pipeline)
        self._admission = AdmissionController(self.config.max_running, self.config.max_waiting)
        self._lock = threading.Lock()
        self._open: dict[str, _OpenRequest] = {}
        self._num_live = 0
        self._abort_ids = itertools.count(1)
        self._abort_waiters: dict[int, Callable[[], None]] = {}
        self._state_waiters: list[Callable[[], None]] = []
        self._idle_waiters: list[Callable[[], None]] = []
        self._crash: str | None = None
        self._is_stopped = False
        self._pool = ThreadPoolExecutor(_NUM_INPUT_THREADS, "input")
        self._order: dict[str, asyncio.Future[None]] = {}
        self._orchestrator = Orchestrator(
            pipeline,
            self.config,
            self._deliver,
            self._abort_answered,
            self._crashed,
            self._state_changed,
        )
        self.metrics = EngineMetrics(lambda: self._orchestrator.snapshot)
        # Well below half the bound, at which the orchestrator lets a paused request go on.
        self._report_every = int(self.config.max_buffered_audio_s * pipeline.sample_rate) // 4

    # --- life ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the orchestrator and the replicas. Returns at once; see ``wait_ready``."""
        self._orchestrator.start()

    @property
    def snapshot(self) -> Snapshot:
        """The orchestrator's state, at most a tenth of a second old."""
        return self._orchestrator.snapshot

    @property
    def is_ready(self) -> bool:
        return self._crash is None and not self._is_stopped and self.snapshot.is_ready

    async def wait_ready(self, timeout_s: float | None = None) -> None:
        """Wait until each stage has a ready replica.

        Raises ``UnavailableError`` with the reason when a stage cannot start, or in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self.is_ready:
                    event = self._waiter(self._state_waiters)
                    if reason := self._crash or self.snapshot.failure:
                        raise UnavailableError(reason)
                    if self.is_ready:
                        return
                    await event.wait()
        except TimeoutError:
            raise UnavailableError(f"the engine was not ready within {timeout_s:g} s") from None

    async def shutdown(self, drain_timeout_s: float | None = None) -> None:
        """Take no new requests, let the running ones finish or hit the deadline, end all."""
        self._admission.close()
        drain_s = self.config.drain_timeout_s if drain_timeout_s is None else drain_timeout_s
        self._orchestrator.submit(DrainMessage(time.monotonic() + drain_s))
        event = self._waiter(self._idle_waiters)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s + 1):
                while self._num_live and self._crash is None:
                    await event.wait()
                    event = self._waiter(self._idle_waiters)
        self._is_stopped = True
        self._orchestrator.submit(ShutdownMessage())
        await asyncio.to_thread(self._orchestrator.join)
        self._pool.shutdown(wait=False)

    def readiness(self) -> dict[str, Any]:
        """Per stage: ready and wanted replicas, restarts, and why it was given up, if it was."""
        snapshot = self.snapshot
        stages = {
            s.name: {
                "ready": s.num_ready,
                "wanted": s.num_wanted,
                "restarts": s.num_restarts,
                "failure": s.failure,
            }
            for s in snapshot.stages
        }
        return {
            "ready": self.is_ready,
            "failure": self._crash or snapshot.failure,
            "stages": stages,
        }

    def scale(self, stage_id: int, num_replicas: int) -> None:
        """Set the number of replicas of a stage; surplus ones finish what they have first."""
        if not 0 <= stage_id <= self.pipeline.final_stage_id:
            raise InvalidRequestError(
                f"stage_id must be between 0 and {self.pipeline.final_stage_id}", param="stage_id"
            )
        if num_replicas < 1:
            raise InvalidRequestError("num_replicas must be at least 1", param="num_replicas")
        self._orchestrator.submit(ScaleMessage(stage_id, num_replicas))

    def check_integrity(self) -> None:
        """Assert that nothing is left of any request, here, in the orchestrator and the workers.

        Call when no request is running, and not on an event loop: it waits for the replicas.
        """
        with self._lock:
            assert self._num_live == 0, f"{self._num_live} requests are still running"
            assert self._admission.num_taken == 0, "tickets are still out"
        self._orchestrator.inspect(OrchestratorCore.check_integrity).result(_CENSUS_TIMEOUT_S)
        held = self._census()
        assert not any(held.values()), f"replicas still hold requests: {held}"

    # --- voices and admission --------------------------------------------------------------------

    def find_voice(self, name: str) -> Voice:
        """The voice of that id or alias, in any case. Raises ``InvalidRequestError``."""
        wanted = name.casefold()
        for voice in self.voices:
            if wanted == voice.id.casefold() or wanted in voice.aliases:
                return voice
        known = ", ".join(voice.id for voice in self.voices)
        raise InvalidRequestError(
            f"unknown voice {name[:64]!r}; the voices are: {known}", param="voice"
        )

    def admit(self) -> AdmissionTicket:
        """A ticket for one request. Raises ``OverloadedError`` or ``UnavailableError``."""
        if self._crash is not None:
            raise UnavailableError(self._crash)
        return self._admission.take()

    # --- requests --------------------------------------------------------------------------------

    def add_request(
        self,
        request_id: str,
        prompt: Prompt | str,
        prompt_text: str | None = None,
        sampling_params_list: Sequence[SamplingParams] | None = None,
        final_stage_id: int = 0,
        final_output_stage_ids: Sequence[int] | None = None,
        arrival_time: float | None = None,
        lora_request: Any = None,
        tokenization_kwargs: Mapping[str, Any] | None = None,
        trace_headers: Mapping[str, str] | None = None,
        priority: int = 0,
        data_parallel_rank: int | None = None,
        reasoning_ended: bool | None = None,
        *,
        resumable: bool = False,
        deadline: float | None = None,
        ticket: AdmissionTicket | None = None,
    ) -> None:
        """Check, transform and queue a request; read it with ``outputs``.

        ``deadline`` is in seconds of ``time.monotonic``. The ticket (taken here if none is given)
        goes back when the request has ended, or at once if it is refused. Raises
        ``InvalidRequestError``, ``DuplicateRequestError``, ``OverloadedError``.
        """
        request = AddRequest(
            request_id,
            prompt,
            prompt_text,
            sampling_params_list,
            final_stage_id,
            final_output_stage_ids,
            arrival_time,
            lora_request,
            tokenization_kwargs,
            trace_headers,
            priority,
            data_parallel_rank,
            reasoning_ended,
            resumable,
            deadline,
        )
        self._add(request, ticket or self.admit())

    async def add_request_async(
        self,
        request_id: str,
        prompt: Prompt | str,
        prompt_text: str | None = None,
        sampling_params_list: Sequence[SamplingParams] | None = None,
        final_stage_id: int = 0,
        final_output_stage_ids: Sequence[int] | None = None,
        arrival_time: float | None = None,
        lora_request: Any = None,
        tokenization_kwargs: Mapping[str, Any] | None = None,
        trace_headers: Mapping[str, str] | None = None,
        priority: int = 0,
        data_parallel_rank: int | None = None,
        reasoning_ended: bool | None = None,
        *,
        resumable: bool = False,
        deadline: float | None = None,
        ticket: AdmissionTicket | None = None,
    ) -> None:
        """``add_request`` with its input processing off the event loop.

        Calls for one request id keep their order. Cancelling it aborts the request.
        """
        request = AddRequest(
            request_id,
            prompt,
            prompt_text,
            sampling_params_list,
            final_stage_id,
            final_output_stage_ids,
            arrival_time,
            lora_request,
            tokenization_kwargs,
            trace_headers,
            priority,
            data_parallel_rank,
            reasoning_ended,
            resumable,
            deadline,
        )
        owned = ticket or self.admit()
        try:
            await self._in_order(request_id, lambda: self._add(request, owned))
        except asyncio.CancelledError:
            self._abort_soon(request_id)
            raise

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        """The outputs of a request, to its end. Raises its error. Only one reader per request."""
        with self._lock:
            request = self._open.get(request_id)
        if request is None:
            raise UnknownRequestError(f"no request {request_id!r} is open", param="request_id")
        warnings = request.warnings
        while True:
            message = await request.queue.get()
            if is_terminal(message):
                self._forget(request_id)
            yield self._to_output(message, warnings)
            warnings = ()
            if is_terminal(message):
                return

    async def generate(
        self,
        request_id: str,
        prompt: Prompt | str,
        *,
        sampling_params_list: Sequence[SamplingParams] | None = None,
        final_stage_id: int | None = None,
        ticket: AdmissionTicket | None = None,
        **arguments: Any,
    ) -> AsyncGenerator[OmniRequestOutput, None]:
        """Add a request, yield its outputs, abort it when the caller stops iterating.

        Runs to the pipeline's last stage unless told otherwise; ``arguments`` are those of
        ``add_request``. Close the generator (``aclose``) to abort early.
        """
        await self.add_request_async(
            request_id,
            prompt,
            sampling_params_list=sampling_params_list,
            final_stage_id=(
                self.pipeline.final_stage_id if final_stage_id is None else final_stage_id
            ),
            ticket=ticket,
            **arguments,
        )
        try:
            async for output in self.outputs(request_id):
                yield output
        finally:
            self._abort_soon(request_id)

    async def abort(self, request_ids: Sequence[str]) -> None:
        """Abort requests; returns when every stage has let go. Unknown ids are harmless."""
        abort_id = next(self._abort_ids)
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._abort_waiters[abort_id] = lambda: _call(loop, event.set)
        self._orchestrator.submit(AbortMessage(list(request_ids), abort_id))
        await event.wait()
        for request_id in request_ids:
            self._forget(request_id)

    # --- on the orchestrator's thread ------------------------------------------------------------

    def _deliver(self, message: ToCaller) -> None:
        with self._lock:
            request = self._open.get(message.request_id)
        if request is None:
            return
        if isinstance(message, OutputMessage) and message.finished:
            self.metrics.queue_wait_s.observe(message.queue_wait_ms / 1000)
        if is_terminal(message):
            self._end(request)
        request.queue.put(message)

    def _end(self, request: _OpenRequest) -> None:
        with self._lock:
            if not request.is_live:
                return
            request.is_live = False
            self._num_live -= 1
            waiters = self._idle_waiters if self._num_live == 0 else []
            if waiters:
                self._idle_waiters = []
        request.ticket.release()
        remove_artifacts(request.artifact_dirs)
        for wake in waiters:
            wake()

    def _abort_answered(self, message: AbortedMessage) -> None:
        wake = self._abort_waiters.pop(message.abort_id, None)
        if wake is not None:
            wake()

    def _state_changed(self, _snapshot: Snapshot) -> None:
        with self._lock:
            waiters, self._state_waiters = self._state_waiters, []
        for wake in waiters:
            wake()

    def _crashed(self, reason: str) -> None:
        """The orchestrator is gone: answer everyone who waits for it."""
        self._crash = reason
        self._admission.close()
        with self._lock:
            open_ids = [rid for rid, request in self._open.items() if request.is_live]
        for request_id in open_ids:
            self._deliver(ErrorMessage(request_id, "unavailable", reason))
        for abort_id in list(self._abort_waiters):
            self._abort_answered(AbortedMessage(abort_id))
        self._state_changed(self.snapshot)

    # --- small things ----------------------------------------------------------------------------

    def _add(self, request: AddRequest, ticket: AdmissionTicket) -> None:
        try:
            processed = self._inputs.process(request)
        except BaseException:
            ticket.release()
            raise
        request_id = request.request_id

        def report_consumed(num_samples: int) -> None:
            self._orchestrator.submit(ConsumedMessage(request_id, num_samples))

        opened = _OpenRequest(
            OutputQueue(self._report_every, report_consumed),
            ticket,
            request.resumable,
            processed.warnings,
            processed.artifact_dirs,
        )
        try:
            self._register(request_id, opened)
        except BaseException:
            ticket.release()
            remove_artifacts(processed.artifact_dirs)
            raise
        self._orchestrator.submit(processed.submission)

    def _register(self, request_id: str, opened: _OpenRequest) -> None:
        with self._lock:
            if self._crash is not None or self._is_stopped:
                raise UnavailableError(self._crash or "the engine has been shut down")
            if request_id in self._open:
                raise DuplicateRequestError(
                    f"a request {request_id!r} is already open", param="request_id"
                )
            self._open[request_id] = opened
            self._num_live += 1

    def _forget(self, request_id: str) -> None:
        with self._lock:
            request = self._open.get(request_id)
            if request is not None and not request.is_live:
                del self._open[request_id]

    def _abort_soon(self, request_id: str) -> None:
        """Abort without waiting; the caller has gone."""
        with self._lock:
            request = self._open.pop(request_id, None)
        if request is None:
            return
        self._end(request)
        self._orchestrator.submit(AbortMessage([request_id], next(self._abort_ids)))

    async def _in_order(self, request_id: str, work: Callable[[], T]) -> T:
        """Run ``work`` on the input threads, after the calls made before it for this id."""
        loop = asyncio.get_running_loop()
        before = self._order.get(request_id)
        mine: asyncio.Future[None] = loop.create_future()
        self._order[request_id] = mine
        try:
            if before is not None:
                await asyncio.wait([before])
            running = loop.run_in_executor(self._pool, work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await asyncio.wait([running])  # short; the request's fate must be known
                raise
        finally:
            mine.set_result(None)
            if self._order.get(request_id) is mine:
                del self._order[request_id]

    def _to_output(self, message: ToCaller, warnings: tuple[str, ...]) -> OmniRequestOutput:
        match message:
            case ErrorMessage():
                error = error_from_code(message.code, message.message, message.param)
                if message.fatal:
                    raise error
                answer = InteractionResult(message.event_id or "", "", error=message.message)
                return OmniRequestOutput(message.request_id, 0, interaction=answer)
            case AckMessage():
                answer = InteractionResult(message.event_id, message.kind, message.result)
                return OmniRequestOutput(message.request_id, 0, interaction=answer)
        payload = dict(message.payload or {})
        audio = payload.pop("audio", None)
        return OmniRequestOutput(
            request_id=message.request_id,
            stage_id=message.stage_id,
            audio=None if audio is None else audio.data.cast("B"),
            start_sample=message.start_sample,
            num_samples=message.num_samples,
            sample_rate=self.pipeline.sample_rate,
            payload=payload,
            finished=message.finished,
            warnings=warnings,
            queue_wait_ms=message.queue_wait_ms,
        )

    def _waiter(self, waiters: list[Callable[[], None]]) -> asyncio.Event:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._lock:
            waiters.append(lambda: _call(loop, event.set))
        return event

    def _census(self) -> dict[str, int]:
        """How many requests each replica says it holds, asked now."""
        seq = self._orchestrator.inspect(lambda core: core.supervisor.ping_all()).result()
        give_up_at = time.monotonic() + _CENSUS_TIMEOUT_S

        def look(core: OrchestratorCore) -> dict[str, int] | None:
            replicas = [r for pool in core.pools for r in pool.ready()]
            if any(r.last_pong_seq < seq for r in replicas):
                return None
            return {r.replica_id: r.num_held for r in replicas}

        while True:
            held = self._orchestrator.inspect(look).result()
            if held is not None:
                return held
            assert time.monotonic() < give_up_at, "a replica does not answer its ping"
            time.sleep(0.005)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has been closed; nobody waits any more
        loop.call_soon_threadsafe(function)
