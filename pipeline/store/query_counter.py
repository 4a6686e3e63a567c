"""Count embedded queries by tenant in memory, and write them to the ledger every few seconds."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict

from livedex.pipeline.costs.bill import ModelPrice
from livedex.pipeline.errors import LivedexError, TenantDeletedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.cost_ledger import CostLedger

log = logging.getLogger(__name__)

_WRITE_EVERY_S = 2.0
_MAX_TENANTS = 10_000
"""Tenants whose counts wait for a database that is away; further ones are not counted."""


class QueryCounter:
    """Counts queries, so that none waits for the ledger.

    Args:
        ledger: receives the counts.
        model: that embeds queries.
        interval_s: seconds between two writes, > 0.
    """

    def __init__(
        self, ledger: CostLedger, model: ModelPrice, *, interval_s: float = _WRITE_EVERY_S
    ) -> None:
        self._ledger, self._model, self._interval_s = ledger, model, interval_s
        self._counts: defaultdict[TenantId, list[int]] = defaultdict(lambda: [0, 0])
        self._writing: asyncio.Task[None] | None = None

    def count(self, tenant_id: TenantId, tokens: int) -> None:
        """Count one text.

        Args:
            tenant_id: who searched.
            tokens: of the text.
        """
        if tenant_id not in self._counts and len(self._counts) >= _MAX_TENANTS:
            return
        counts = self._counts[tenant_id]
        counts[0] += 1
        counts[1] += tokens
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_later(), name="count queries")

    async def close(self) -> None:
        """Write what is counted."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)
        await self._write()

    async def _write_later(self) -> None:
        while self._counts:
            await asyncio.sleep(self._interval_s)
            await self._write()

    async def _write(self) -> None:
        for tenant_id in list(self._counts):
            texts, tokens = self._counts.pop(tenant_id)
            try:
                await self._ledger.count_queries(tenant_id, self._model, texts, tokens)
            except TenantDeletedError:
                continue
            except (LivedexError, asyncio.CancelledError) as exc:
                counts = self._counts[tenant_id]  # again with the next
                counts[0] += texts
                counts[1] += tokens
                if isinstance(exc, asyncio.CancelledError):
                    raise
                log.debug("queries are not counted yet: %s", exc)
