"""What the front end writes beside a row's sampling parameters for scheduler and guidance to read.

vLLM carries it as ``extra_args`` from the front end to the processes that schedule and sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_GROUP = "voxloom_group"
_ALONE = "voxloom_alone"
_RESUMED = "voxloom_resumed"
_UNTOLD = "voxloom_untold"

# A guided passage has a row that is guided and one that it is guided away from.
GROUP_SIZE = 2
GUIDED_ROW = 0


@dataclass(frozen=True, slots=True)
class GroupMark:
    """``row`` 0 is the guided one, 1 the other; ``scale`` is the guidance scale of both.

    ``plausible_nats`` as in ``Passage``.
    """

    group_id: str
    row: int
    scale: float
    plausible_nats: float | None = None


def make_extra_args(
    group: GroupMark | None, *, alone: bool, num_resumed: int = 0, untold: bool = False
) -> dict[str, Any] | None:
    """``alone``: nothing else is to run until this row has its first token. ``num_resumed``: so
    many tokens at the end of its prompt were made before, under the same grammar.

    ``untold``: nobody wants the states of this row.
    """
    extra_args: dict[str, Any] = {}
    if group is not None:
        extra_args[_GROUP] = asdict(group)
    if alone:
        extra_args[_ALONE] = True
    if num_resumed:
        extra_args[_RESUMED] = num_resumed
    if untold:
        extra_args[_UNTOLD] = True
    return extra_args or None


def read_group(extra_args: Mapping[str, Any] | None) -> GroupMark | None:
    mark = (extra_args or {}).get(_GROUP)
    return None if mark is None else GroupMark(**mark)


def is_alone(extra_args: Mapping[str, Any] | None) -> bool:
    return bool((extra_args or {}).get(_ALONE))


def read_resumed(extra_args: Mapping[str, Any] | None) -> int:
    return int((extra_args or {}).get(_RESUMED, 0))


def is_untold(extra_args: Mapping[str, Any] | None) -> bool:
    return bool((extra_args or {}).get(_UNTOLD))
