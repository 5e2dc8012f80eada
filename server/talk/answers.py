"""One answer of a cascade: the engine's outputs as text, calls, sound and an end."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from engine.messages import SamplingParams
from engine.outputs import OmniRequestOutput
from engine.pipeline import PipelineConfig
from server.engine_port import EnginePort
from server.sessions.spoken import WordTime, read_words

# Names of the stages in a pipeline file: a cascade writes down what it hears, an omni model hears.
_LISTENING, _WRITING, _HEARING, _THINKING = "vad", "whisper", "hear", "think"


@dataclass(frozen=True, slots=True)
class CascadeStages:
    """Where in a cascade its parts are. A pipeline that has them can hold conversations.

    Without ``writing`` its thinker gets the sound itself, through ``hearing``, not the words.
    ``is_live``: the first stage finds turns in live audio, which is what sessions need.
    """

    writing: int | None
    hearing: int | None
    thinking: int
    speaking: int
    is_live: bool

    @property
    def hears_itself(self) -> bool:
        """The model gets sound as it is, and has no need of words."""
        return self.writing is None

    @property
    def answering(self) -> int:
        """Where an answer begins: what is written down already is no business of the ears."""
        return self.thinking if self.hearing is None else self.hearing


def find_stages(pipeline: PipelineConfig) -> CascadeStages | None:
    """The parts of a cascade, or of an omni model; None if the pipeline is neither."""
    names = [stage.name for stage in pipeline.stages]
    if _THINKING not in names or not {_WRITING, _HEARING} & set(names):
        return None
    writing = names.index(_WRITING) if _WRITING in names else None
    return CascadeStages(
        writing=writing,
        hearing=names.index(_HEARING) if writing is None else None,
        thinking=names.index(_THINKING),
        speaking=pipeline.final_stage_id,
        # What a cascade writes down is found by the stage before, whatever that is called.
        is_live=writing is not None or names[0] == _LISTENING,
    )


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of the ``index``-th tool call; its first piece has the id and the name."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class SoundDelta:
    """Sound of the answer, s16le mono at the pipeline's rate; words that it begins."""

    pcm: memoryview
    num_samples: int
    words: list[WordTime] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """All has come. ``finish_reason`` and ``usage`` are the chat API's."""

    finish_reason: str
    usage: dict[str, int]


AnswerPart: TypeAlias = TextDelta | CallDelta | SoundDelta | AnswerEnd


async def answer(
    engine: EnginePort,
    stages: CascadeStages,
    request_id: str,
    prompt: dict[str, Any],
    *,
    speaks: bool,
    seed: int | None = None,
    **arguments: Any,
) -> AsyncGenerator[AnswerPart, None]:
    """The answer to a prompt, in parts, the end last; closing the generator aborts it.

    ``seed`` is the voice's. ``arguments`` are those of ``EnginePort.generate``. Raises
    ``VoxloomError``.
    """
    last = stages.speaking if speaks else stages.thinking
    finish_reason, usage = "stop", dict[str, int]()
    outputs = engine.generate(
        request_id,
        prompt,
        sampling_params_list=_sampling(engine.pipeline, last, seed),
        first_stage_id=stages.answering,
        final_stage_id=last,
        final_output_stage_ids=sorted({stages.thinking, last}),
        **arguments,
    )
    async with aclosing(outputs):
        async for output in outputs:
            thought = output.payload.get("thought")
            if thought is not None:
                finish_reason = thought["finish_reason"] or finish_reason
                usage = thought["usage"] or usage
            for part in _parts(output, thought):
                yield part
    yield AnswerEnd(finish_reason, usage)


def _sampling(pipeline: PipelineConfig, last: int, seed: int | None) -> list[SamplingParams] | None:
    if seed is None:
        return None
    stages = pipeline.stages[: last + 1]
    return [msgspec.structs.replace(stage.default_sampling, seed=seed) for stage in stages]


def _parts(output: OmniRequestOutput, thought: dict[str, Any] | None) -> list[AnswerPart]:
    parts: list[AnswerPart] = []
    if thought is not None:
        if thought["delta"]:
            parts.append(TextDelta(thought["delta"]))
        parts += [
            CallDelta(call["index"], call["id"], call["name"], call["arguments"])
            for call in thought["calls"]
        ]
    if output.audio is not None and output.num_samples:
        words = read_words(output.payload.get("words", ()))
        parts.append(SoundDelta(output.audio.cast("B"), output.num_samples, words))
    return parts
