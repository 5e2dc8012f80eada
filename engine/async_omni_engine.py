"""The engine: what endpoints and programs call to turn prompts into audio.

Input processing happens in the caller's process; all else in the orchestrator and the replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from engine.admission import AdmissionTicket
from engine.argument_checks import check_arguments
from engine.buffering import stage_reports
from engine.call_order import CallOrder
from engine.config import EngineConfig
from engine.engine_host import EngineHost
from engine.errors import (
    InvalidRequestError,
    UnavailableError,
    UnknownRequestError,
    VoxloomError,
)
from engine.input_processor import AddRequest, InputProcessor, remove_artifacts
from engine.messages import (
    AbortMessage,
    ConsumedMessage,
    InteractionMessage,
    Prompt,
    SamplingParams,
    StageSubmissionMessage,
    refusal,
)
from engine.output_queue import OutputQueue, is_terminal
from engine.outputs import (
    InteractionResult,
    OmniInteractionPrompt,
    OmniRequestOutput,
    refused,
    to_output,
)
from engine.pipeline import PipelineConfig, Voice, load_voices
from engine.request_table import OpenRequest
from engine.trace import current_trace
from engine.wake_ups import call_on


class AsyncOmniEngine(EngineHost):
    """See the methods. Thread-safe: any thread and any event loop may call it."""

    def __init__(self, pipeline: PipelineConfig, config: EngineConfig | None = None) -> None:
        super().__init__(pipeline, config)
        self.voices = load_voices(pipeline)
        self._inputs = InputProcessor(pipeline)
        self._calls = CallOrder(self._pool)

    # --- voices and prompts ----------------------------------------------------------------------

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

    def check_prompt(self, prompt: Prompt) -> None:
        """Raise the ``InvalidRequestError`` that a request with this prompt would meet."""
        self._inputs.check(prompt)

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
        first_stage_id: int = 0,
        ticket: AdmissionTicket | None = None,
    ) -> None:
        """Check, transform and queue a request; read it with ``outputs``.

        ``trace_headers`` are by default those of ``engine.trace.current_trace``.
        ``deadline`` is in seconds of ``time.monotonic``. A request that is no business of the
        first stages begins at ``first_stage_id``, which reads the prompt as it was given. The
        ticket (taken here if none is given) goes back when the request has ended, or at once if it
        is refused. Raises
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
            current_trace.get() if trace_headers is None else trace_headers,
            priority,
            data_parallel_rank,
            reasoning_ended,
            resumable,
            deadline,
            first_stage_id,
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
        first_stage_id: int = 0,
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
            current_trace.get() if trace_headers is None else trace_headers,
            priority,
            data_parallel_rank,
            reasoning_ended,
            resumable,
            deadline,
            first_stage_id,
        )
        await self._add_in_order(request, ticket or self.admit())

    async def _add_in_order(self, request: AddRequest, ticket: AdmissionTicket) -> OpenRequest:
        """Add a request; what a cancelled call has added is aborted, and nothing else."""
        added: list[OpenRequest] = []
        try:
            work = functools.partial(self._add, request, ticket)
            await self._calls.run(request.request_id, lambda: added.append(work()))
        except asyncio.CancelledError:
            if added:
                self._abort_soon(request.request_id, added[0])
            ticket.release()
            raise
        return added[0]

    def add_streaming_update(
        self,
        request_id: str,
        prompt: Prompt | str,
        prompt_text: str | None = None,
        sampling_params_list: Sequence[SamplingParams] | None = None,
        final_stage_id: int = 0,
        final_output_stage_ids: Sequence[int] | None = None,
        arrival_time: float | None = None,
        lora_request: Any = None,
        *,
        resumable: bool = True,
    ) -> None:
        """One more segment of a resumable request; ``resumable=False`` closes it.

        What was fixed when the request was added (sampling, stages, LoRA) cannot be given again.
        Raises ``UnknownRequestError`` and ``InvalidRequestError``; the request is not harmed.
        """
        _refuse_given(
            prompt_text=prompt_text,
            sampling_params_list=sampling_params_list,
            final_stage_id=final_stage_id or None,
            final_output_stage_ids=final_output_stage_ids,
            lora_request=lora_request,
        )
        request = self._table.find_live(request_id)
        if not request.is_open:
            raise InvalidRequestError(
                f"request {request_id!r} takes no more text: it is not resumable or was closed",
                param="request_id",
            )
        segment = self._inputs.process_update(prompt, request.num_chars)
        request.num_chars += len(segment.get("text", ""))
        request.is_open = resumable
        self._orchestrator.submit(
            StageSubmissionMessage(
                type="streaming_update",
                request_id=request_id,
                prompt=segment,
                original_prompt=segment,
                sampling_params_list=[],
                final_stage_id=final_stage_id,
                final_output_stage_ids=[],
                resumable=resumable,
                request_timestamp=arrival_time or time.time(),
                enqueue_ts=time.time(),
            )
        )

    async def add_streaming_update_async(
        self, request_id: str, prompt: Prompt | str, *args: Any, **kwargs: Any
    ) -> None:
        """``add_streaming_update`` off the event loop, in the order of calls per request id."""
        await self._calls.run(
            request_id, lambda: self.add_streaming_update(request_id, prompt, *args, **kwargs)
        )

    def submit_interaction(
        self, request_id: str, interaction: OmniInteractionPrompt
    ) -> InteractionResult | None:
        """Send a control message to a running request.

        Its answer, a refusal too, comes among the request's outputs and repeats its ``event_id``.
        A request that is unknown or has ended has none: then the refusal is returned. Nothing that
        a caller may get wrong raises, and nothing is harmed.
        """
        request = self._table.find(request_id)
        message = InteractionMessage(request_id, interaction.event_id, interaction.kind)
        if request is None or not request.is_live:
            reason = f"no request {request_id!r} is running: it is unknown or has ended"
            return refused(refusal(message, "unknown_request", reason, "request_id"))
        try:
            message.arguments = self._arguments(request, interaction)
        except VoxloomError as error:
            message.refused = refusal(message, error.code, error.message, error.param)
        self._orchestrator.submit(message)
        return None

    async def submit_interaction_async(
        self, request_id: str, interaction: OmniInteractionPrompt
    ) -> InteractionResult | None:
        """``submit_interaction`` off the event loop, in the order of calls per request id."""
        return await self._calls.run(
            request_id, lambda: self.submit_interaction(request_id, interaction)
        )

    def _arguments(
        self, request: OpenRequest, interaction: OmniInteractionPrompt
    ) -> dict[str, Any]:
        """What the interaction's arguments mean to the stages. Raises ``VoxloomError``."""
        check_arguments(interaction.kind, interaction.arguments)
        arguments = dict(interaction.arguments)
        if interaction.kind == "update":
            request.prompt, arguments = self._inputs.process_voice_update(request.prompt, arguments)
        return arguments

    async def outputs(self, request_id: str) -> AsyncGenerator[OmniRequestOutput, None]:
        """The outputs of a request, to its end. Raises its error. Only one reader per request."""
        request = self._table.find(request_id)
        if request is None:
            raise UnknownRequestError(f"no request {request_id!r} is open", param="request_id")
        warnings = request.warnings
        while True:
            message = await request.queue.get()
            if is_terminal(message):
                self._table.forget(request_id)
            yield to_output(message, self.pipeline.sample_rate, warnings, request.prompt_text)
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
        opened = self._table.find(request_id)
        assert opened is not None, "it was added just now, and nobody has read it"
        try:
            async with contextlib.aclosing(self.outputs(request_id)) as outputs:
                async for output in outputs:
                    yield output
        finally:
            self._abort_soon(request_id, opened)

    async def abort(self, request_ids: Sequence[str]) -> None:
        """Abort requests; returns when every stage has let go. Unknown ids are harmless."""
        abort_id = next(self._abort_ids)
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._abort_waiters[abort_id] = lambda: call_on(loop, event.set)
        if not self._orchestrator.submit(AbortMessage(list(request_ids), abort_id)):
            self._abort_waiters.pop(abort_id, None)  # unless the orchestrator's end has answered
            return  # it has ended, and everything with it
        await event.wait()
        for request_id in request_ids:
            self._table.forget(request_id)

    # --- small things ----------------------------------------------------------------------------

    def _add(self, request: AddRequest, ticket: AdmissionTicket) -> OpenRequest:
        try:
            processed = self._inputs.process(request)
        except BaseException:
            ticket.release()
            raise
        request_id, submission = request.request_id, processed.submission

        def report_consumed(stage_id: int, num_taken: int) -> None:
            self._orchestrator.submit(ConsumedMessage(request_id, stage_id, num_taken))

        reports = stage_reports(self.pipeline, self.config, submission.final_output_stage_ids)
        queue = OutputQueue(self.pipeline.sample_rate, reports, report_consumed)
        opened = OpenRequest(
            queue,
            ticket,
            submission.original_prompt,
            request.resumable,
            processed.warnings,
            processed.artifact_dirs,
            tuple(companion.request_id for companion in submission.companions),
            len(text) if isinstance(text := submission.original_prompt.get("text"), str) else 0,
            submission.output_prompt_text,
        )
        try:
            self._table.add(request_id, opened)
        except BaseException:
            ticket.release()
            remove_artifacts(processed.artifact_dirs)
            raise
        if not self._orchestrator.submit(submission):
            self._table.drop(request_id, opened)
            self._table.forget(request_id)
            raise UnavailableError("the engine has been shut down")
        return opened

    def _abort_soon(self, request_id: str, request: OpenRequest) -> None:
        """Abort without waiting; the caller has gone. The id is free once the abort is through."""
        if not self._table.drop(request_id, request):
            return
        abort_id = next(self._abort_ids)
        self._abort_waiters[abort_id] = lambda: self._table.forget(request_id)
        if not self._orchestrator.submit(AbortMessage([request_id], abort_id)):
            self._abort_waiters.pop(abort_id, lambda: None)()


def _refuse_given(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise InvalidRequestError(
                f"{name} is fixed when a request is added, an update cannot change it", param=name
            )
