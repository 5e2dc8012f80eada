"""How a stage samples, as callers say it and stages are told."""

from __future__ import annotations

from typing import Any

import msgspec


class SamplingParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one stage samples. ``None`` leaves the stage's own default.

    A stage that cannot use a field refuses it by name; ``extra`` holds stage-specific fields.
    """

    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    guidance_scale: float | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
