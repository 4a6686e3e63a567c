"""Fair semaphore: the tenant with the fewest slots is served next, and no tenant can hold all."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FairSemaphore:
    """Limits concurrent work, in total and for each tenant.

    A free slot goes to the waiting tenant with the fewest slots, in turn among equals, and within a
    tenant to the first caller. `reserve` slots are never available to a tenant that already holds
    `max_per_tenant`, so a tenant with little work does not wait for one with much.

    Args:
        max_per_tenant: slots of one tenant, >= 1.
        reserve: further slots, >= 0.
    """

    def __init__(self, max_per_tenant: int, reserve: int) -> None:
        self._max_per_tenant = max_per_tenant
        self._free = max_per_tenant + reserve
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def slot(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold a slot for the block.

        Args:
            tenant_id: of the work.

        Raises:
            CancelledError: as any wait; the slot is then free.
        """
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(granted)
        self._grant()
        try:
            await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled():  # granted and cancelled at once
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
            waiting = self._waiting.pop(tenant_id)
            granted = waiting.popleft()
            if waiting:
                # behind the others: tenants with equally many slots alternate
                self._waiting[tenant_id] = waiting
            if granted.done():
                continue
            self._free -= 1
            self._held[tenant_id] += 1
            granted.set_result(None)

    def _next(self) -> str | None:
        allowed = [
            tenant_id for tenant_id in self._waiting if self._held[tenant_id] < self._max_per_tenant
        ]
        return min(allowed, key=lambda tenant_id: self._held[tenant_id], default=None)
