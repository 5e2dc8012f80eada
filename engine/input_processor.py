"""Turns the arguments of a caller into one submission, before anything is queued.

All checks and the model family's own prompt functions run here, on the caller's side. A failure
raises to the caller and leaves nothing behind.
"""

from __future__ import annotations

import copy
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from engine.argument_checks import (
    check_final_stage,
    check_first_stage,
    check_int,
    check_output_stages,
    check_rank,
    check_request_id,
    check_sampling,
    check_submission,
    check_time,
    check_trace_headers,
    check_travels,
    refuse,
)
from engine.audio_segments import checked_audio
from engine.errors import InvalidRequestError, StageFailedError
from engine.messages import CompanionSpec, Prompt, SamplingParams, StageSubmissionMessage
from engine.pipeline import (
    PipelineConfig,
    PromptExpand,
    PromptExpansion,
    PromptTransform,
    load_function,
)

# Keys that only a prompt transform may set; a client's own are dropped before it runs.
WARNINGS_KEY = "warnings"
ARTIFACT_DIRS_KEY = "artifact_dirs"
# Keys that the engine sets.
REQUEST_ID_KEY = "request_id"
RESUMABLE_KEY = "resumable"
TEXT_OFFSET_KEY = "text_offset"
RESERVED_KEYS = frozenset(
    {WARNINGS_KEY, ARTIFACT_DIRS_KEY, REQUEST_ID_KEY, RESUMABLE_KEY, TEXT_OFFSET_KEY}
)

# Sampling fields that only a language model can act on.
_LLM_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "guidance_scale", "extra")


@dataclass(slots=True)
class AddRequest:
    """The arguments of ``add_request`` under the names of its signature, and when it was called."""

    request_id: str
    prompt: Prompt | str
    prompt_text: str | None = None
    sampling_params_list: Sequence[SamplingParams] | None = None
    final_stage_id: int = 0
    final_output_stage_ids: Sequence[int] | None = None
    arrival_time: float | None = None
    lora_request: str | None = None
    tokenization_kwargs: Mapping[str, Any] | None = None
    trace_headers: Mapping[str, str] | None = None
    priority: int = 0
    data_parallel_rank: int | None = None
    reasoning_ended: bool | None = None
    resumable: bool = False
    deadline: float | None = None
    first_stage_id: int = 0
    called_at: float = field(default_factory=time.time)


@dataclass(frozen=True, slots=True)
class ProcessedInput:
    """A submission, and what stays with the caller."""

    submission: StageSubmissionMessage
    warnings: tuple[str, ...] = ()
    artifact_dirs: tuple[Path, ...] = field(default=())


class InputProcessor:
    """Checks and transforms prompts for one pipeline. Safe to call from several threads."""

    def __init__(self, pipeline: PipelineConfig) -> None:
        self._pipeline = pipeline
        self._expand: PromptExpand | None = load_function(pipeline, "prompt_expand_func")
        self._transform: PromptTransform | None = load_function(pipeline, "prompt_transform_func")

    def process(self, request: AddRequest) -> ProcessedInput:
        """The submission of a new request. Raises ``InvalidRequestError``."""
        started = time.perf_counter()
        self._check(request)
        final_stage_id = request.final_stage_id
        output_ids = check_output_stages(
            request.final_output_stage_ids, request.first_stage_id, final_stage_id
        )
        sampling = self._sampling(request.sampling_params_list, final_stage_id)
        trace_headers = check_trace_headers(request.trace_headers)
        original = _clean_prompt(request.prompt, request.request_id)
        check_travels(original, Prompt, "prompt")
        prompt = self._transformed(original, resumable=request.resumable)
        artifact_dirs = _pop_artifact_dirs(prompt)
        warnings = tuple(prompt.pop(WARNINGS_KEY, ()))
        try:
            companions = self._companions(request, prompt, sampling)
        except BaseException:
            remove_artifacts(artifact_dirs)
            raise
        submission = StageSubmissionMessage(
            type="add_request",
            request_id=request.request_id,
            prompt=prompt,
            original_prompt=original,
            output_prompt_text=_prompt_text(request.prompt_text, original),
            lora=request.lora_request,
            sampling_params_list=sampling,
            final_stage_id=final_stage_id,
            final_output_stage_ids=output_ids,
            first_stage_id=request.first_stage_id,
            companions=companions,
            priority=request.priority,
            seed=_request_seed(sampling),
            deadline=request.deadline,
            resumable=request.resumable,
            data_parallel_rank=request.data_parallel_rank,
            trace_headers=trace_headers,
            preprocess_ms=(time.perf_counter() - started) * 1000,
            request_timestamp=(
                request.called_at if request.arrival_time is None else request.arrival_time
            ),
            enqueue_ts=time.time(),
        )
        try:
            check_submission(submission)
        except BaseException:
            remove_artifacts(artifact_dirs)
            raise
        return ProcessedInput(submission, warnings, artifact_dirs)

    def check(self, prompt: Prompt) -> None:
        """Refuse what the model family refuses of such a prompt; nothing is kept of it.

        Raises ``InvalidRequestError``.
        """
        transformed = self._transformed(_clean_prompt(prompt, ""), resumable=False)
        remove_artifacts(_pop_artifact_dirs(transformed))

    def process_update(self, prompt: Prompt | str, text_offset: int) -> Prompt:
        """One more segment of a request whose text has ``text_offset`` characters so far."""
        if isinstance(prompt, str):
            prompt = {"text": prompt}
        segment = _without_reserved(prompt)
        if self._pipeline.input_type == "audio":
            return checked_audio(segment)
        if not isinstance(segment.get("text"), str) or len(segment) != 1:
            raise InvalidRequestError(
                "a segment holds text and nothing else; an update interaction changes the voice",
                param="prompt",
            )
        return _checked_text(segment | {TEXT_OFFSET_KEY: text_offset})

    def process_voice_update(
        self, original: Prompt, changes: dict[str, Any]
    ) -> tuple[Prompt, Prompt]:
        """The prompt as changed, and what the first stage is told of it."""
        changed = original | _without_reserved(changes) | {"text": ""}
        transformed = self._transformed(changed, resumable=True)
        remove_artifacts(_pop_artifact_dirs(transformed))
        for key in (WARNINGS_KEY, "text", *RESERVED_KEYS):
            transformed.pop(key, None)
        return changed, _checked_text(transformed)

    def _transformed(self, original: Prompt, *, resumable: bool) -> Prompt:
        """The transform's result on a copy, with the request id set before and after it."""
        prompt = copy.deepcopy(original)
        if resumable:
            prompt[RESUMABLE_KEY] = True
        if self._transform is not None:
            prompt = self._transform(prompt)
        prompt[REQUEST_ID_KEY] = original[REQUEST_ID_KEY]
        return prompt

    def _companions(
        self, request: AddRequest, prompt: Prompt, sampling: Sequence[SamplingParams]
    ) -> list[CompanionSpec]:
        """The CFG companions of a request that goes past stage 0, all built or none."""
        if self._expand is None or request.first_stage_id > 0 or request.final_stage_id == 0:
            return []
        expansions = list(self._expand(copy.deepcopy(prompt), sampling[0]))
        if not expansions:
            return []
        if request.resumable:
            raise InvalidRequestError(
                "a guided request cannot take its text in segments", param="resumable"
            )
        self._check_group(expansions)
        return [_companion(request.request_id, e, sampling[0]) for e in expansions]

    def _check_group(self, expansions: Sequence[PromptExpansion]) -> None:
        stage = self._pipeline.stages[0]
        if 1 + len(expansions) > stage.max_batch_size:
            raise StageFailedError(
                f"stage {stage.name!r} steps {stage.max_batch_size} requests at once, too few for "
                f"a group of {1 + len(expansions)}"
            )
        for field_name in ("role", "request_id_suffix"):
            values = [getattr(expansion, field_name) for expansion in expansions]
            if not all(values) or len(set(values)) != len(values):
                raise StageFailedError(f"prompt_expand_func gave empty or equal {field_name}s")

    def _sampling(
        self, given: Sequence[SamplingParams] | None, final_stage_id: int
    ) -> list[SamplingParams]:
        if given is None:
            stages = self._pipeline.stages[: final_stage_id + 1]
            return [stage.default_sampling for stage in stages]
        if len(given) != final_stage_id + 1:
            raise InvalidRequestError(
                f"sampling_params_list must hold one entry per stage, {final_stage_id + 1} here, "
                f"got {len(given)}",
                param="sampling_params_list",
            )
        return list(given)

    def _check(self, request: AddRequest) -> None:
        """Refuse by name what is wrong, only a language-model stage could act on, or none does."""
        _check_plain(request, self._pipeline.final_stage_id)
        for params in request.sampling_params_list or ():
            check_sampling(params)
        if request.first_stage_id > 0:
            self._check_late_start(request)
        for name in ("tokenization_kwargs", "reasoning_ended"):
            if getattr(request, name) is not None:
                raise InvalidRequestError(
                    f"{name} cannot be used: the model families of this server make their own"
                    " prompts",
                    param=name,
                )
        if any(stage.stage_type == "llm" for stage in self._pipeline.stages):
            self._check_lora(request.lora_request)
            return
        if request.lora_request is not None:
            raise self._unsupported("lora_request")
        for params in request.sampling_params_list or ():
            for name in _LLM_SAMPLING:
                if getattr(params, name) not in (None, {}):
                    raise self._unsupported(name)

    def _check_late_start(self, request: AddRequest) -> None:
        """Refuse what only stage 0 acts on."""
        given = {
            "resumable": request.resumable,
            "data_parallel_rank": request.data_parallel_rank is not None,
            "lora_request": request.lora_request is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise InvalidRequestError(
                    f"{name} is for stage 0, and the request begins at {request.first_stage_id}",
                    param=name,
                )

    def _check_lora(self, name: str | None) -> None:
        """A LoRA is asked for by its name, and of the stage that reads the prompt."""
        llm = self._pipeline.stages[0].llm
        known = [lora.name for lora in llm.loras] if llm is not None else []
        if name is not None and name not in known:
            raise InvalidRequestError(
                f"lora_request must be one of {', '.join(known) or 'none'}, got {name!r}",
                param="lora_request",
            )

    def _unsupported(self, name: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{name} cannot be used: pipeline {self._pipeline.name!r} has no language-model stage",
            param=name,
        )


def remove_artifacts(artifact_dirs: Sequence[Path]) -> None:
    """Remove the directories that a transform declared; what is gone already is no error."""
    for path in artifact_dirs:
        shutil.rmtree(path, ignore_errors=True)


def _companion(
    parent_id: str, expansion: PromptExpansion, sampling: SamplingParams
) -> CompanionSpec:
    request_id = parent_id + expansion.request_id_suffix
    return CompanionSpec(
        request_id=request_id,
        role=expansion.role,
        prompt=copy.deepcopy(expansion.prompt) | {REQUEST_ID_KEY: request_id},
        sampling_params_list=[msgspec.structs.replace(sampling, **expansion.sampling_overrides)],
    )


def _prompt_text(given: str | None, prompt: Prompt) -> str | None:
    """What outputs show as the prompt: the caller's word for it, else its text."""
    if given is not None:
        return given
    text = prompt.get("text")
    return text if isinstance(text, str) else None


def _without_reserved(prompt: Prompt) -> Prompt:
    return {key: value for key, value in prompt.items() if key not in RESERVED_KEYS}


def _clean_prompt(prompt: Prompt | str, request_id: str) -> Prompt:
    if isinstance(prompt, str):
        prompt = {"text": prompt}
    if not isinstance(prompt, dict):
        kind = type(prompt).__name__
        raise InvalidRequestError(f"prompt must be a text or a dict, got {kind}", param="prompt")
    return _without_reserved(prompt) | {REQUEST_ID_KEY: request_id}


def _pop_artifact_dirs(prompt: Prompt) -> tuple[Path, ...]:
    return tuple(Path(path) for path in prompt.pop(ARTIFACT_DIRS_KEY, ()))


def _check_plain(request: AddRequest, last_stage_id: int) -> None:
    """The arguments that no model has a say in."""
    check_request_id(request.request_id)
    check_final_stage(request.final_stage_id, last_stage_id)
    check_first_stage(request.first_stage_id, request.final_stage_id)
    check_time("arrival_time", request.arrival_time)
    check_time("deadline", request.deadline)
    check_int("priority", request.priority)
    check_rank(request.data_parallel_rank)
    if request.prompt_text is not None and not isinstance(request.prompt_text, str):
        raise refuse("prompt_text", "a text", request.prompt_text)


def _checked_text(segment: Prompt) -> Prompt:
    check_travels(segment, Prompt, "prompt")
    return segment


def _request_seed(sampling: Sequence[SamplingParams]) -> int:
    """The first seed that was given, else one drawn now: a replay must use the same."""
    for params in sampling:
        if params.seed is not None:
            return params.seed
    return secrets.randbits(63)
