"""The speakers of a Qwen2.5-Omni checkpoint: ``spk_dict.pt``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from engine.errors import ConfigError, InvalidRequestError
from worker.models.lm_codec.files import find_file


@dataclass(frozen=True, slots=True)
class Speaker:
    """``bos_token``: the thinker's token that stands before the answer.

    ``conditioning`` float32 [1, width], ``reference_mel`` float32 [1, mel frames, mels].
    """

    bos_token: int
    conditioning: torch.Tensor
    reference_mel: torch.Tensor


def speakers_file(checkpoint: str) -> Path:
    return find_file(checkpoint, "spk_dict.pt")


def load_speakers(checkpoint: str) -> dict[str, Speaker]:
    """By name, in the file's order. Raises ``ConfigError``."""
    try:
        found: dict[str, Any] = torch.load(
            speakers_file(checkpoint), map_location="cpu", weights_only=True
        )
        return {
            name: Speaker(int(parts["bos_token"]), parts["cond"].float(), parts["ref_mel"].float())
            for name, parts in found.items()
        }
    except (OSError, KeyError, AttributeError) as error:
        raise ConfigError(f"cannot read the speakers of {checkpoint}: {error}") from error


def find_speaker(asked: Any, known: Sequence[str]) -> str:
    """The name as the checkpoint has it, whatever its case; the first one if none is asked for.

    Raises ``InvalidRequestError`` that lists the known ones.
    """
    if asked is None:
        return known[0]
    by_name = {name.lower(): name for name in known}
    if not isinstance(asked, str) or asked.lower() not in by_name:
        raise InvalidRequestError(
            f"voice must be one of {', '.join(known)}, got {asked!r}"[:200], param="voice"
        )
    return by_name[asked.lower()]
