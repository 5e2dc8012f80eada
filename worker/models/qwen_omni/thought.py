"""What the thinker tells the talker: what it read and wrote, position by position.

A thinker that has read a prompt of p tokens and written n of them has run over p + n - 1 positions:
the prompt's, and each written token but the last, which it never reads. Each position has a row of
its token, of its input embedding and of a hidden state. The rows come in order:

    Thought(is_prompt=True)   the p rows of the prompt, whole
    Thought()                 some rows of the answer, as they are written; any number of these
    Thought(is_last=True)     the last rows, or none; nothing follows

So the answer has one row fewer than tokens; an answer that ends at once has none. A thought may be
``is_prompt`` and ``is_last`` at once. At positions with ``multimodal`` the embedding is that of a
piece of sound, as the thinker got it, and the token is the placeholder.

The embeddings of tokens that the thinker has neither read nor written (a speaker's, the padding)
are rows of its own table: see ``checkpoint``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.errors import StageFailedError
from engine.messages import Payload

KEY = "rows"


@dataclass(frozen=True, slots=True)
class Thought:
    """Rows of ``num_rows`` positions, one after the other.

    ``token_ids`` int64 [n]; ``embeddings`` float32 [n, width], the thinker's input embeddings;
    ``hidden`` float32 [n, width]: behind the last layer and its norm (Qwen2.5), or what enters the
    layer with the number ``accept_hidden_layer`` (Qwen3); ``multimodal`` bool [n].
    """

    token_ids: NDArray[np.int64]
    embeddings: NDArray[np.float32]
    hidden: NDArray[np.float32]
    multimodal: NDArray[np.bool_]
    is_prompt: bool = False
    is_last: bool = False

    @property
    def num_rows(self) -> int:
        return len(self.token_ids)


def pack_thought(thought: Thought) -> dict[str, Any]:
    """What a payload holds of a thought, under ``KEY`` of its ``thought``."""
    return {name: getattr(thought, name) for name in Thought.__dataclass_fields__}


def read_thought(payload: Payload, width: int) -> Thought | None:
    """The thought of a payload of the thinker's, or None if it tells only text.

    ``width`` is the thinker's. Raises ``StageFailedError`` for rows that do not fit together.
    """
    packed = payload.get("thought", {}).get(KEY)
    if packed is None:
        return None
    try:
        thought = Thought(**packed)
    except TypeError as error:
        raise StageFailedError(f"the thinker's rows: {error}") from error
    num_rows = len(thought.token_ids)
    _check("token_ids", thought.token_ids, np.int64, (num_rows,))
    _check("embeddings", thought.embeddings, np.float32, (num_rows, width))
    _check("hidden", thought.hidden, np.float32, (num_rows, width))
    _check("multimodal", thought.multimodal, np.bool_, (num_rows,))
    return thought


def _check(name: str, value: Any, dtype: type[np.generic], shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.ndarray) or value.dtype != dtype or value.shape != shape:
        got = f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else type(value)
        raise StageFailedError(
            f"the thinker's {name} must be {np.dtype(dtype).name} {list(shape)}, got {got}"
        )
