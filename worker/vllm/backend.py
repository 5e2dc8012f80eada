"""A replica that runs a language model on vLLM, behind the same messages as the step loop.

One event loop carries the transport, the requests' streams and vLLM's front end; the model runs in
vLLM's own process. What the streams have to send after one turn of the loop leaves as one message.
When vLLM's process dies this one says so and ends, and with it all that it started: the
orchestrator begins anew.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import uvloop

from engine.messages import (
    Fingerprint,
    OutputRow,
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
    Stop,
    ToReplica,
    TrialAsk,
    TrialEnd,
    TrialGrant,
    output_size,
)
from engine.pipeline import LlmConfig, load_object
from worker.backend import EngineDiedError
from worker.credits import Credits
from worker.failures import stage_error
from worker.liveness import Liveness
from worker.stage_model import StageContext
from worker.transport import Transport
from worker.trials import RequestMessage, Trials
from worker.vllm.adapter import FitsPrompts, LlmAdapter
from worker.vllm.fingerprint import llm_fingerprint
from worker.vllm.forming_groups import FormingGroups
from worker.vllm.launch import (
    check_checkpoint,
    check_version,
    launch,
    resolve_checkpoint,
    set_environment,
)
from worker.vllm.metrics import MetricsReader
from worker.vllm.request_stream import RequestStream
from worker.vllm.token_engine import TokenEngine

logger = logging.getLogger("voxloom.worker.vllm")

# How soon the death of vLLM's process, or of the orchestrator, is noticed at the latest.
_CHECK_S = 0.2
# Reading the next sentence is short work; two keep a long text from delaying the others.
_NUM_TAKE_THREADS = 2


class VllmBackend:
    """A ``ReplicaBackend``. Loading it takes as long as vLLM takes to load the model."""

    def __init__(
        self, context: StageContext, transport: Transport, *, orphan_timeout_s: float
    ) -> None:
        """Raises ``ConfigError`` with one sentence if vLLM cannot start."""
        llm = context.stage.llm
        assert llm is not None, "a stage with stage_type llm has an llm section"
        self._transport = transport
        self._step_timeout_s = context.stage.step_timeout_s
        set_environment(llm)
        # Before the adapter, which may need the checkpoint's tokenizer.
        check_version()
        check_checkpoint(resolve_checkpoint(llm.checkpoint))
        where = f"stages[{context.stage_id}].model"
        self._adapter: LlmAdapter = load_object(context.stage.model, where)(context)
        self._fingerprint = llm_fingerprint(llm, self._adapter.model_files())
        self._loop = uvloop.new_event_loop()
        self._engine: TokenEngine = self._loop.run_until_complete(_launch(llm))
        if isinstance(self._adapter, FitsPrompts):
            self._adapter.set_max_model_len(self._engine.max_model_len)
        self._threads = ThreadPoolExecutor(_NUM_TAKE_THREADS, "take")
        self._streams: dict[str, RequestStream] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._aborts: set[asyncio.Task[None]] = set()
        self._forming = FormingGroups()
        self._trials = Trials()
        self._credits = Credits()
        self._rows: list[OutputRow] = []
        self._metrics = MetricsReader()
        self._liveness = Liveness(orphan_timeout_s)
        self._stopping = asyncio.Event()
        self._failure: Exception | None = None

    def fingerprint(self) -> Fingerprint:
        return self._fingerprint

    def run(self) -> None:
        """Raises ``EngineDiedError`` when vLLM's process has died."""
        try:
            self._loop.run_until_complete(self._run())
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._engine.shutdown()

    async def _run(self) -> None:
        self._loop.set_exception_handler(self._callback_failed)
        for descriptor in self._transport.descriptors():
            self._loop.add_reader(descriptor, self._receive)
        self._liveness.note_ping()
        self._receive()
        while not self._stopping.is_set() and not self._liveness.is_orphaned:
            if self._engine.is_dead:
                raise EngineDiedError("vLLM's process has died")
            if self._engine.silent_s > self._step_timeout_s:
                raise EngineDiedError(
                    f"vLLM has given no token for {self._step_timeout_s:g} s to those who wait"
                )
            if self._failure is not None:
                raise self._failure
            try:
                async with asyncio.timeout(_CHECK_S):
                    await self._stopping.wait()
            except TimeoutError:
                self._receive()

    def _callback_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """A message that could not be carried out, or rows that could not be sent, end the replica.

        An exception of a task is its request's alone, and told there.
        """
        loop.default_exception_handler(context)
        error = context.get("exception")
        if "handle" in context and isinstance(error, Exception):
            self._failure = error

    # --- messages --------------------------------------------------------------------------------

    def _receive(self) -> None:
        for message in self._transport.receive():
            self._handle(message)
        self._check_trial()

    def _handle(self, message: ToReplica) -> None:
        match message:
            case Ping():
                self._liveness.note_ping()
                num_requests = self._num_requests()
                pong = Pong(message.seq, num_requests, self._metrics.read_if_due())
                self._transport.send_control(pong)
            case Stop():
                self._stopping.set()
            case StageAbort():
                self._abort(message.request_ids)
            case TrialGrant():
                for held in self._trials.start(message.request_id):
                    self._handle_request(held)
            case _ if not self._trials.holds_back(message):
                self._handle_request(message)

    def _handle_request(self, message: RequestMessage) -> None:
        stream = self._streams.get(message.request_id)
        match message:
            case StageRequest():
                self._credits.add(message)
                self._add(message)
            case StageCredit():
                self._credits.grant(message.request_id, message.credit)
                self._check_credit(message.request_id)
            case StageUpdate() | StageInteraction():
                if stream is not None:
                    stream.put(message)
            case StagePause() | StageResume():
                is_pause = isinstance(message, StagePause)
                self._forming.set_paused(message.request_id, is_pause)
                if stream is not None:
                    stream.set_paused(is_pause)

    def _add(self, message: StageRequest) -> None:
        """Start a request by itself, or a group when its last member has come."""
        own = message  # the one to blame, until it is known whose group this is
        try:
            members = self._forming.add(message)
            if members is None:
                return
            own, companions = members
            stream = RequestStream(
                own,
                companions,
                self._adapter,
                self._engine,
                self._threads,
                self._emit,
                alone=own.suspect,
            )
        except Exception as error:
            # The orchestrator ends the group, and with its abort what is left of it here.
            self._drop_credits([own.request_id])
            self._transport.send(stage_error(own.request_id, error, None, own.trace_headers))
            return
        self._streams[own.request_id] = stream
        self._check_credit(own.request_id)
        task = self._loop.create_task(stream.run())
        self._tasks[own.request_id] = task
        task.add_done_callback(lambda task: self._ended(stream, task))

    def _ended(self, stream: RequestStream, task: asyncio.Task[None]) -> None:
        request_id = stream.request.request_id
        if self._tasks.get(request_id) is not task:
            return  # it was aborted
        del self._tasks[request_id], self._streams[request_id]
        self._drop_credits(stream.member_ids)
        error = task.exception()
        if error is not None and not self._engine.is_dead:
            self._flush()  # what came before the failure
            trace = stream.request.trace_headers
            self._transport.send(stage_error(request_id, error, stream.failed_input, trace))
        self._check_trial()

    def _abort(self, request_ids: list[str]) -> None:
        """Let go of them; answered when vLLM has been told, behind all that they have sent."""
        tasks = []
        self._drop_credits(request_ids)
        for request_id in request_ids:
            self._trials.drop(request_id)
            self._forming.drop(request_id)
            self._streams.pop(request_id, None)
            task = self._tasks.pop(request_id, None)
            if task is not None:
                task.cancel()
                tasks.append(task)
        gone = set(request_ids)
        self._rows = [row for row in self._rows if row.request_id not in gone]
        if not tasks:
            self._transport.send(StageReleased(request_ids))
            return
        release = self._loop.create_task(self._release(request_ids, tasks))
        self._aborts.add(release)
        release.add_done_callback(self._aborts.discard)

    async def _release(self, request_ids: list[str], tasks: list[asyncio.Task[None]]) -> None:
        await asyncio.wait(tasks)
        self._transport.send(StageReleased(request_ids))
        self._receive()

    # --- rows ------------------------------------------------------------------------------------

    def _emit(self, row: OutputRow) -> None:
        if not self._rows:
            self._loop.call_soon(self._flush)
        self._rows.append(row)
        self._credits.use(row.request_id, output_size(False, row.payload, row.num_samples))
        self._check_credit(row.request_id)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if not rows:
            return
        num_routed = sum(row.payload is not None for row in rows)
        # vLLM's own metrics tell how long its steps take.
        self._transport.send(StageOutput(rows, len(rows), num_routed, step_ms=0.0))
        for row in rows:
            if row.num_samples:
                self._trials.note_output(row.request_id, row.start_sample + row.num_samples)
        self._receive()

    # --- small things ----------------------------------------------------------------------------

    def _check_credit(self, request_id: str) -> None:
        stream = self._streams.get(request_id)
        if stream is not None:
            stream.set_has_credit(self._credits.allows(request_id))

    def _drop_credits(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            self._credits.drop(request_id)

    def _check_trial(self) -> None:
        """End the trial that has served, ask for the next."""
        running = self._trials.running
        if running is not None and (self._trials.is_passed or self._is_idle(running)):
            self._trials.end()
            self._transport.send_control(TrialEnd(running))
        asked = self._trials.ask()
        if asked is not None:
            self._transport.send_control(TrialAsk(asked))

    def _is_idle(self, request_id: str) -> bool:
        stream = self._streams.get(request_id)
        return stream is None or stream.is_idle

    def _num_requests(self) -> int:
        # One whose last rows are out is held by nobody, though its task has yet to end.
        running = [stream for stream in self._streams.values() if not stream.is_finished]
        num_streaming = sum(len(stream.member_ids) for stream in running)
        return num_streaming + self._forming.num_requests + self._trials.num_held


async def _launch(llm: LlmConfig) -> TokenEngine:
    engine = TokenEngine(launch(llm), llm)
    # vLLM's front end reads the environment for every token of every row, its core once.
    from vllm.envs import enable_envs_cache

    enable_envs_cache()
    await engine.prepare()
    # What vLLM has loaded stays: no collection of garbage should walk through it again.
    gc.collect()
    gc.freeze()
    return engine
