"""The LoRAs of a stage, by the names that requests ask for them with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.errors import ConfigError, InvalidRequestError
from engine.pipeline import LoraModule
from worker.failures import one_line

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest
    from vllm.v1.engine.async_llm import AsyncLLM


class Loras:
    """Those that are declared. ``load`` comes before the first request."""

    def __init__(self, modules: Sequence[LoraModule]) -> None:
        from vllm.lora.request import LoRARequest

        self._requests: dict[str, LoRARequest] = {
            module.name: LoRARequest(module.name, number, module.path)
            for number, module in enumerate(modules, 1)
        }

    async def load(self, engine: AsyncLLM) -> None:
        """Raises ``ConfigError`` that names the one that cannot be loaded.

        Left to its first request, such a one would end vLLM's process, at each request anew.
        """
        for name, request in self._requests.items():
            try:
                await engine.add_lora(request)
            except Exception as error:  # whatever its files made vLLM's process raise
                raise ConfigError(f"llm.loras: cannot load {name!r}: {one_line(error)}") from error

    def find(self, name: str | None) -> LoRARequest | None:
        """None without a name. Raises ``InvalidRequestError``."""
        if name is None:
            return None
        if name not in self._requests:
            known = ", ".join(sorted(self._requests)) or "none"
            raise InvalidRequestError(
                f"unknown LoRA {name!r}; known: {known}", param="lora_request"
            )
        return self._requests[name]
