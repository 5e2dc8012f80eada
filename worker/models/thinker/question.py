"""What a request asks of a model on vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from worker.models.thinker.answer_form import AnswerForm
from worker.models.thinker.tool_choice import Tooling
from worker.models.thinker.truncation import Truncation
from worker.vllm.sampling import TokenSampling


@dataclass(frozen=True, slots=True)
class Question:
    """``truncation`` None: the messages are asked whole, or not at all."""

    messages: list[dict[str, Any]]
    tooling: Tooling
    sampling: TokenSampling
    form: AnswerForm | None = None
    truncation: Truncation | None = None
