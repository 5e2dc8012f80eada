"""vLLM's sampling parameters, of which the grammar has been checked before.

vLLM checks it when a request is added, on the event loop that every other request's tokens come
through. A family does so where it makes the grammar: on a thread (``PassageSource.take``).
"""

from __future__ import annotations

from typing import Any

from vllm.exceptions import VLLMValidationError
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.v1.structured_output.backend_guidance import GuidanceBackend


class CheckedSampling(SamplingParams):  # type: ignore[misc]
    """To vLLM's own process it is one like any other."""

    # vLLM's name; the last of its checks.
    def _validate_structured_outputs(
        self, _model_config: Any, structured_outputs_config: Any, tokenizer: Any
    ) -> None:
        if self.structured_outputs is None:
            return
        if tokenizer is None or not GuidanceBackend.is_tokenizer_supported(tokenizer):
            raise VLLMValidationError("a grammar needs one of the tokenizers that are called fast")
        self.structured_outputs._backend = structured_outputs_config.backend


def hold_to(grammar: str | None) -> StructuredOutputsParams | None:
    return None if grammar is None else StructuredOutputsParams(grammar=grammar)
