"""Tenants: listing, creation, and deletion with all their data.

A deletion marks the tenant first. From then on, the schema refuses all writes for it, so pending
events cannot recreate it (`migrations/0004_access.sql`). Its rows are deleted afterwards in
batches; an interrupted deletion can be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import orjson

from livedex.pipeline.errors import ConflictError, NotFoundError
from livedex.pipeline.model import DEFAULT_TENANT, TenantId
from livedex.pipeline.names import is_reserved
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import BlobStore

_DELETE_BATCH_ROWS = 5_000
_QUEUE_PAGE_ROWS = 500


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as operators see it.

    Attributes:
        tenant_id: its name.
        created_at: aware.
        documents: number of visible documents.
        keys: number of valid API keys.
    """

    tenant_id: TenantId
    created_at: datetime
    documents: int
    keys: int


class TenantStore:
    """Lists, creates and deletes tenants. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def all(self) -> list[Tenant]:
        """Return all tenants by name."""
        found = [await self._read(tenant_id) for tenant_id in await self._database.tenants()]
        return [tenant for tenant in found if tenant is not None]

    async def create(self, tenant_id: TenantId, *, again: bool = False) -> Tenant:
        """Create an empty tenant.

        Args:
            tenant_id: its name.
            again: permit the name of a deleted tenant.

        Raises:
            ConflictError: the name is reserved or in use, or it was in use and `again` is False.
        """
        _check_not_reserved(tenant_id)
        async with self._database.tenant(tenant_id, "create a tenant") as connection:
            if await connection.fetchrow(sql("read_tenant"), tenant_id) is not None:
                raise ConflictError(f"tenant {tenant_id} already exists")
            deleted_at = await connection.fetchval(sql("tenant_deleted_at"), tenant_id)
            if deleted_at is not None and not again:
                raise ConflictError(
                    f"a tenant {tenant_id} was deleted at {deleted_at:%Y-%m-%d %H:%M} UTC, and its "
                    "pending events would enter the new tenant: choose another name, or use "
                    "--again"
                )
            await connection.execute(sql("forget_tenant_deletion"), tenant_id)
            await connection.execute(sql("add_tenant"), tenant_id)
        made = await self._read(tenant_id)
        assert made is not None
        return made

    async def count_rows(self, tenant_id: TenantId) -> Mapping[str, int]:
        """Return the number of rows of a tenant by table, with `queue` for its pending events in
        the database; tables without rows are left out.

        Args:
            tenant_id: its name.

        Raises:
            NotFoundError: the tenant does not exist, and has no rows left.
        """
        async with self._database.tenant(tenant_id, "count a tenant's rows") as connection:
            rows = await connection.fetch(sql("count_tenant_rows"))
            known = await connection.fetchrow(sql("read_tenant"), tenant_id) is not None
        found = {row["name"]: row["number"] for row in rows}
        if not found and not known:
            raise NotFoundError(
                f"tenant {tenant_id} not found: `livedex tenants list` shows all tenants"
            )
        if queued := sum([len(events) for events in await self._queued(tenant_id)]):
            found["queue"] = queued
        return found

    async def delete(self, tenant_id: TenantId) -> None:
        """Delete a tenant with all its data.

        The tenant `default` is only emptied, because every installation has it: its configured
        subscribers stay.

        Args:
            tenant_id: its name.

        Raises:
            ConflictError: the name is reserved.
        """
        _check_not_reserved(tenant_id)
        async with self._database.tenant(tenant_id, "mark a tenant deleted") as connection:
            await connection.execute(sql("lock_tenant_writes"), tenant_id)
            await connection.execute(sql("mark_tenant_deleted"), tenant_id)
            subscribers = await connection.fetch(sql("configured_subscribers"), tenant_id)
        async with self._database.tenant(tenant_id, "remove a tenant's keys") as connection:
            await connection.execute(sql("forget_keys"), tenant_id)
        for events in await self._queued(tenant_id):
            async with self._database.system("remove queued events") as connection:
                await connection.execute(sql("remove_queued"), events)
        await self._blobs.discard_tenant(tenant_id)
        removed = 1
        while removed:
            async with self._database.tenant(tenant_id, "remove a tenant's rows") as connection:
                removed = await connection.fetchval(sql("remove_tenant_rows"), _DELETE_BATCH_ROWS)
        # again: object storage, unlike the schema, accepted writes during the deletion
        await self._blobs.discard_tenant(tenant_id)
        async with self._database.tenant(tenant_id, "remove a tenant") as connection:
            await connection.execute(sql("remove_tenant"), tenant_id)
            if tenant_id == DEFAULT_TENANT:
                await connection.execute(sql("forget_tenant_deletion"), tenant_id)
                for row in subscribers:
                    await connection.execute(sql("add_subscriber"), tenant_id, *row.values())

    async def _read(self, tenant_id: TenantId) -> Tenant | None:
        async with self._database.tenant(tenant_id, "read a tenant") as connection:
            row = await connection.fetchrow(sql("read_tenant"), tenant_id)
        return Tenant(tenant_id, **row) if row is not None else None

    async def _queued(self, tenant_id: TenantId) -> list[list[int]]:
        """Return the ids of queue rows with events of a tenant, in batches."""
        found: list[list[int]] = []
        last = -1
        while True:
            async with self._database.system("read queued events") as connection:
                rows = await connection.fetch(sql("queued_payloads"), last, _QUEUE_PAGE_ROWS)
            if not rows:
                return [batch for batch in found if batch]
            last = rows[-1]["id"]
            found.append([row["id"] for row in rows if _event_tenant(row["payload"]) == tenant_id])


def _check_not_reserved(tenant_id: TenantId) -> None:
    if is_reserved(tenant_id):
        raise ConflictError(
            f"the tenant {tenant_id} is reserved: it holds the dead letters of records that name "
            "no tenant; remove them with `livedex dead`"
        )


def _event_tenant(payload: bytes) -> str | None:
    """Return the tenant of an event; None if the payload names none."""
    try:
        data = orjson.loads(payload)["data"]
        return str(data["tenant_id"])
    except (ValueError, KeyError, TypeError):
        return None
