"""Makes ACLs and deletes effective in the transaction that accepts a change, before the change is
queued.
"""

from __future__ import annotations

from collections.abc import Sequence

from livedex.pipeline.model import Fence, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.drafts import AccessUpdate
from livedex.pipeline.store.postgres.statements import sql


async def apply_access_updates(
    database: Database, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
) -> None:
    """Apply ACLs and hide deleted documents; see `VectorStore.apply_access_updates`.

    Args:
        database: connected as the application's role.
        tenant_id: owner of the documents.
        guarded: updates; several may concern one document.

    Raises:
        OutageError: the database is unavailable.
        RetryableError: a retry can succeed.
        TenantDeletedError: the tenant was deleted.
    """
    said: dict[str, AccessUpdate] = {}
    gone: dict[str, Fence] = {}
    for each in guarded:
        fence = each.fence
        if fence.digest[0]:
            gone[each.document_id] = max(fence, gone.get(each.document_id, fence), key=_fence_key)
        elif each.document_id not in said or _fence_key(said[each.document_id].fence) < _fence_key(
            fence
        ):
            said[each.document_id] = each
    names = sorted({*said, *gone})
    if not names:
        return
    fences = [said[name].fence if name in said else None for name in names]
    deletes = [gone.get(name) for name in names]
    async with database.tenant(tenant_id, f"guard {len(names)} documents") as connection:
        await connection.execute(
            sql("guard_documents"),
            tenant_id,
            names,
            [f and f.version for f in fences],
            [f and f.digest for f in fences],
            [
                None if name not in said or (acl := said[name].acl) is None else list(acl)
                for name in names
            ],
            [f and f.version for f in deletes],
            [f and f.digest for f in deletes],
        )


def _fence_key(fence: Fence) -> tuple[int, bytes]:
    return fence.version, fence.digest


class PostgresAccessUpdater:
    """Implements `livedex.pipeline.store.protocol.AccessUpdater` on PostgreSQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Apply ACLs and hide deleted documents; see the function `apply_access_updates`."""
        await apply_access_updates(self._database, tenant_id, guarded)
