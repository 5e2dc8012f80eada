"""Parts of a published omni checkpoint, each loaded without the others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import PreTrainedModel
from transformers.utils import logging as transformers_logging

from engine.errors import ConfigError
from worker.models.lm_codec.files import find_file

_WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_THINKER_EMBEDDINGS = "thinker.model.embed_tokens.weight"


def load_part(
    model: str,
    kind: type[PreTrainedModel],
    config: Any,
    prefix: str,
    *,
    dtype: torch.dtype | str,
    device: torch.device,
) -> Any:
    """The module under ``prefix`` (``talker``) of a checkpoint, a folder or a hub id.

    ``dtype`` may be ``auto``: as it was saved. Raises ``ConfigError`` if a weight is missing.
    """
    with _quiet():
        part, info = kind.from_pretrained(
            model,
            config=config,
            key_mapping={rf"^{prefix}\.": ""},
            dtype=dtype,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
    missing = sorted(info["missing_keys"])
    if missing:
        raise ConfigError(f"{model} has no {prefix}.{missing[0]}, and {len(missing)} such weights")
    return part.eval().to(device)


def thinker_embeddings(model: str, token_ids: Sequence[int]) -> torch.Tensor:
    """Rows [tokens, width] of the thinker's table of embeddings, as saved, and nothing else of it.

    Raises ``ConfigError`` if the checkpoint has no such table.
    """
    try:
        weights = json.loads(find_file(model, _INDEX).read_text())["weight_map"]
        name = weights[_THINKER_EMBEDDINGS]
    except OSError:
        name = _WEIGHTS
    except KeyError as error:
        raise ConfigError(f"{model} has no {_THINKER_EMBEDDINGS}") from error
    with safe_open(find_file(model, name), "pt") as file:
        table = file.get_slice(_THINKER_EMBEDDINGS)
        num_rows = table.get_shape()[0]
        if not all(0 <= token < num_rows for token in token_ids):
            raise ConfigError(f"{model}: no embeddings of {list(token_ids)} among {num_rows}")
        return torch.cat([table[token : token + 1] for token in token_ids])


def generation_config(model: str) -> dict[str, Any]:
    """What the checkpoint says of sampling; empty where it says nothing."""
    try:
        said: dict[str, Any] = json.loads(find_file(model, "generation_config.json").read_text())
    except OSError:
        return {}
    return said


def weight_files(model: str, prefix: str = "") -> list[Path]:
    """The files that decide what the part under ``prefix``, or the whole model, computes."""
    names = ["config.json"]
    try:
        shards = json.loads(find_file(model, _INDEX).read_text())["weight_map"]
        names += sorted({name for weight, name in shards.items() if weight.startswith(prefix)})
    except OSError:
        names.append(_WEIGHTS)
    return [find_file(model, name) for name in names]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without transformers' table of all weights that belong to the other parts."""
    level = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        transformers_logging.enable_progress_bar()
