"""Limits concurrent reads per tenant, so that slow queries of one tenant do not block others.

A tenant that reads alone may use all connections but one; with other active tenants it may use half
of them. Further reads wait in a queue for each credential, and the credentials of a tenant are
served in turn.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.request_context import current_credential

MAX_WAITING_READS = 64
"""Maximum number of waiting reads of one tenant."""
_ACTIVE_WINDOW_S = 60.0
_TOO_MANY_READS = "too many reads of this tenant are running"


@dataclass(slots=True)
class _TenantQueue:
    """Running reads of one tenant, and waiting reads by credential."""

    running: int = 0
    waiting: int = 0
    last_s: float = 0.0
    lines: OrderedDict[str, deque[asyncio.Future[None]]] = field(default_factory=OrderedDict)


class ReadLimiter:
    """Limits concurrent reads per tenant.

    Args:
        connections: size of the pool that reads use, >= 1.
        wait_s: maximum waiting time of a read in seconds.
        clock: returns monotonic seconds.
    """

    def __init__(
        self, connections: int, *, wait_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connections = connections
        self._wait_s = wait_s
        self._clock = clock
        self._accounts: dict[TenantId, _TenantQueue] = {}

    def share(self, tenant_id: TenantId) -> int:
        """Return the maximum number of concurrent reads of a tenant."""
        recently = self._clock() - _ACTIVE_WINDOW_S
        shared = any(
            other.last_s > recently for name, other in self._accounts.items() if name != tenant_id
        )
        return max(1, self._connections // 2 if shared else self._connections - 1)

    @asynccontextmanager
    async def turn(self, tenant_id: TenantId) -> AsyncIterator[None]:
        """Wait for a free slot, and hold it until the end of the block.

        Args:
            tenant_id: of the read.

        Raises:
            RetryableError: too many reads of this tenant are running or waiting.
        """
        account = self._account(tenant_id)
        if account.running >= self.share(tenant_id):
            await self._wait(account)
        else:
            account.running += 1
        try:
            yield
        finally:
            account.running -= 1
            self._wake(tenant_id, account)

    def _account(self, tenant_id: TenantId) -> _TenantQueue:
        now = self._clock()
        if (account := self._accounts.get(tenant_id)) is None:
            idle = [
                name
                for name, each in self._accounts.items()
                if not each.running and not each.waiting and each.last_s < now - _ACTIVE_WINDOW_S
            ]
            for name in idle:
                del self._accounts[name]
            account = self._accounts[tenant_id] = _TenantQueue()
        account.last_s = now
        return account

    async def _wait(self, account: _TenantQueue) -> None:
        if account.waiting >= MAX_WAITING_READS:
            raise RetryableError(_TOO_MANY_READS, retry_after_s=2)
        who, turn = current_credential.get(), asyncio.get_running_loop().create_future()
        account.lines.setdefault(who, deque()).append(turn)
        account.waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as exc:
            if turn.done() and not turn.cancelled():  # the slot was granted but will not be used
                account.running -= 1
            if (line := account.lines.get(who)) is not None and turn in line:
                line.remove(turn)
                if not line:
                    del account.lines[who]
            if isinstance(exc, TimeoutError):
                raise RetryableError(_TOO_MANY_READS, retry_after_s=2) from exc
            raise
        finally:
            account.waiting -= 1

    def _wake(self, tenant_id: TenantId, account: _TenantQueue) -> None:
        """Grant free slots to waiting reads, one credential after the other."""
        while account.lines and account.running < self.share(tenant_id):
            who, line = next(iter(account.lines.items()))
            turn = line.popleft()
            account.lines.move_to_end(who)
            if not line:
                del account.lines[who]
            if not turn.done():
                account.running += 1
                turn.set_result(None)
