"""Who is next on the PostgreSQL queue: rows that this process holds, by tenant, and documents that
are worked on one version after another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from livedex.consumers.fair_semaphore import FairSemaphore

TENANT_HEADER, DOCUMENT_HEADER = "tenant", "document"
ROWS_PER_WORKER = 4  # rows in memory; tenants take turns among these
_SHARE = 3  # of these, for one tenant
_BEHIND = 2  # of one tenant, that wait in memory for an earlier version of their document


class DocumentBusyError(Exception):
    """Enough rows wait here for earlier versions of their documents: deliver this one later."""


class RowScheduler:
    """Turns at the workers of one stage.

    Args:
        workers: of the stage, for one tenant at most; a quarter more is kept for other tenants.

    Attributes:
        max_rows: rows that are held at once, at most.
        share: rows of one tenant among these, at most.
        refill: called when more rows of a tenant can be held that had as many as it may.
    """

    def __init__(self, workers: int) -> None:
        self.max_rows, self.share = ROWS_PER_WORKER * workers, _SHARE * workers
        self.refill: Callable[[], None] = lambda: None
        self._low = (_SHARE - 1) * workers
        self._slots = FairSemaphore(workers, max(1, workers // 4))
        self._held: Counter[str] = Counter()
        self._most_behind = _BEHIND * workers
        self._behind: Counter[str] = Counter()
        self._documents: dict[str, tuple[asyncio.Lock, list[None]]] = {}

    @property
    def held(self) -> dict[str, int]:
        """Rows that are held, by tenant."""
        return dict(self._held)

    def taken(self, tenant_id: str) -> None:
        """Note that a row was leased."""
        self._held[tenant_id] += 1

    def ended(self, tenant_id: str) -> None:
        """Note that a row was given back or is done."""
        self._held[tenant_id] -= 1
        if self._held[tenant_id] == self._low:
            self.refill()
        if self._held[tenant_id] <= 0:
            del self._held[tenant_id]

    @asynccontextmanager
    async def hold(self, tenant_id: str, document: str | None) -> AsyncIterator[None]:
        """A worker for a row, once the rows of its document that came before it have ended.

        Args:
            tenant_id: whose rows are held.
            document: stands for the document; None: it is not known.

        Raises:
            DocumentBusyError: too many wait for that.
        """
        if document is None:
            async with self._slots.slot(tenant_id):
                yield
            return
        lock, present = self._documents.setdefault(document, (asyncio.Lock(), []))
        if present and self._behind[tenant_id] >= self._most_behind:
            raise DocumentBusyError
        present.append(None)
        try:
            await self._in_turn(lock, tenant_id)
            try:
                async with self._slots.slot(tenant_id):
                    yield
            finally:
                lock.release()
        finally:
            present.pop()
            if not present:
                del self._documents[document]

    async def _in_turn(self, lock: asyncio.Lock, tenant_id: str) -> None:
        """Wait for earlier versions of a document."""
        self._behind[tenant_id] += 1
        try:
            await lock.acquire()
        finally:
            self._behind[tenant_id] -= 1
            if not self._behind[tenant_id]:
                del self._behind[tenant_id]
