"""How much each request may send: no step is taken for one that has used its credit up."""

from __future__ import annotations

from dataclasses import dataclass

from engine.messages import StageRequest


@dataclass(slots=True)
class _Account:
    num_sent: int
    credit: int


class Credits:
    """Amounts are samples of audio, or else payloads (``engine.messages.output_size``)."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    def __len__(self) -> int:
        return len(self._accounts)

    def add(self, request: StageRequest) -> None:
        self._accounts[request.request_id] = _Account(request.num_sent, request.credit)

    def grant(self, request_id: str, credit: int) -> None:
        """Raise the credit; a grant for a request that is gone is harmless."""
        account = self._accounts.get(request_id)
        if account is not None:
            account.credit = max(account.credit, credit)

    def use(self, request_id: str, size: int) -> None:
        """So much was sent for the request."""
        account = self._accounts.get(request_id)
        if account is not None:
            account.num_sent += size

    def allows(self, request_id: str) -> bool:
        """Whether the request may be stepped; an unknown one may not."""
        account = self._accounts.get(request_id)
        return account is not None and account.num_sent < account.credit

    def drop(self, request_id: str) -> None:
        self._accounts.pop(request_id, None)
