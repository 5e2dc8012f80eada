"""What the front end writes beside a row's sampling parameters for scheduler and guidance to read.

vLLM carries it as ``extra_args`` from the front end to the processes that schedule and sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_GROUP = "voxloom_group"
_ALONE = "voxloom_alone"
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
    group: GroupMark | None, *, alone: bool, untold: bool = False
) -> dict[str, Any] | None:
    """``alone``: nothing else is to run until this row has its first token.

    ``untold``: nobody wants the states of this row.
    """
    extra_args: dict[str, Any] = {}
    if group is not None:
        extra_args[_GROUP] = asdict(group)
    if alone:
        extra_args[_ALONE] = True
    if untold:
        extra_args[_UNTOLD] = True
    return extra_args or None


def read_group(extra_args: Mapping[str, Any] | None) -> GroupMark | None:
    mark = (extra_args or {}).get(_GROUP)
    return None if mark is None else GroupMark(**mark)


def is_alone(extra_args: Mapping[str, Any] | None) -> bool:
    return bool((extra_args or {}).get(_ALONE))


def is_untold(extra_args: Mapping[str, Any] | None) -> bool:
    return bool((extra_args or {}).get(_UNTOLD))
