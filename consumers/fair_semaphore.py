"""Slots for work that tenants share: whoever holds fewest is next, and one tenant alone never
holds them all.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """Limits how much is worked on at once, over all tenants and for each.

    A slot that becomes free goes to the waiting tenant that holds the fewest, tenants with equally
    many in turn; within a tenant, first come first served. `reserve` slots beyond `most` are for
    others than the tenant that holds `most`, so a tenant with little to do never waits for one with
    much to do to finish something.

    Args:
        most: slots that one tenant holds at most, >= 1.
        reserve: further slots, >= 0.
    """

    def __init__(self, most: int, reserve: int) -> None:
        self._most = most
        self._free = most + reserve
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def hold(self, tenant_id: str) -> AsyncIterator[None]:
        """A slot for as long as the block lasts."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        self._grant()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # granted, and cancelled in the same moment
                self._release(tenant_id)
            raise
        try:
            yield
        finally:
            self._release(tenant_id)

    def _release(self, tenant_id: str) -> None:
        self._free += 1
        self._held[tenant_id] -= 1
        if self._held[tenant_id] <= 0:
            del self._held[tenant_id]
        self._grant()

    def _grant(self) -> None:
        while self._free > 0 and (tenant_id := self._next()) is not None:
            turns = self._waiting.pop(tenant_id)
            turn = turns.popleft()
            if turns:
                # behind the others: tenants that hold equally many take turns
                self._waiting[tenant_id] = turns
            if turn.done():
                continue
            self._free -= 1
            self._held[tenant_id] += 1
            turn.set_result(None)

    def _next(self) -> str | None:
        allowed = [tenant_id for tenant_id in self._waiting if self._held[tenant_id] < self._most]
        return min(allowed, key=lambda tenant_id: self._held[tenant_id], default=None)
