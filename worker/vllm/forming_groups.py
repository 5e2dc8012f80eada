"""Groups whose members have not all come yet. They come one right after the other."""

from __future__ import annotations

from typing import TypeAlias

from engine.errors import StageFailedError
from engine.messages import StageRequest

# The request itself, and its companions by role.
Members: TypeAlias = tuple[StageRequest, dict[str, StageRequest]]


class FormingGroups:
    """Members wait here until their group is whole."""

    def __init__(self) -> None:
        self._groups: dict[str, list[StageRequest]] = {}

    @property
    def num_requests(self) -> int:
        return sum(len(members) for members in self._groups.values())

    def add(self, request: StageRequest) -> Members | None:
        """The members of the group that ``request`` completes; by itself it is one of its own."""
        if request.group_id is None:
            return request, {}
        members = self._groups.setdefault(request.group_id, [])
        members.append(request)
        if len(members) < request.group_size:
            return None
        del self._groups[request.group_id]
        own = [member for member in members if member.role is None]
        if len(own) != 1:
            raise StageFailedError(f"group {request.group_id} has {len(own)} rows without role")
        return own[0], {m.role: m for m in members if m.role is not None}

    def set_paused(self, request_id: str, paused: bool) -> None:
        for members in self._groups.values():
            for member in members:
                if member.request_id == request_id:
                    member.paused = paused

    def drop(self, request_id: str) -> None:
        for group_id, members in list(self._groups.items()):
            left = [member for member in members if member.request_id != request_id]
            if left:
                self._groups[group_id] = left
            else:
                del self._groups[group_id]
