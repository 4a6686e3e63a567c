"""Whether every document of a tenant has its vectors in a generation: after a change of the
embedding model it takes a while until that is so.
"""

from __future__ import annotations

import time

from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql

_BELIEVED_S = 1.0
_MOST = 10_000


class GenerationCompleteness:
    """Remembers for a second that a generation is complete, and asks about all others."""

    def __init__(self) -> None:
        self._until: dict[tuple[TenantId, GenerationId], float] = {}

    async def check(
        self, connection: Connection, tenant_id: TenantId, generation_id: GenerationId
    ) -> bool:
        """Return whether no visible document lacks a vector.

        Args:
            connection: in a transaction of the tenant.
            tenant_id: the tenant.
            generation_id: whose vectors are counted.
        """
        key, now = (tenant_id, generation_id), time.monotonic()
        if self._until.get(key, 0.0) > now:
            return True
        if await connection.fetchval(sql("generation_is_incomplete"), tenant_id, generation_id):
            return False
        if len(self._until) >= _MOST:
            self._until.clear()
        self._until[key] = now + _BELIEVED_S
        return True
