"""Tenants: which there are, and the removal of everything that one has.

A deletion marks the tenant first. From then on the schema refuses whatever would be written for it,
so no event that is under way brings it back (`migrations/0004_access.sql`). What is there is
removed after that, a few rows at a time; a deletion that was cut off is begun again.
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
    """A tenant as an operator sees it.

    Attributes:
        documents: to be seen now.
        keys: that open something.
    """

    tenant_id: TenantId
    created_at: datetime
    documents: int
    keys: int


class TenantStore:
    """Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def all(self) -> list[Tenant]:
        """Every tenant by name."""
        found = [await self._read(tenant_id) for tenant_id in await self._database.tenants()]
        return [tenant for tenant in found if tenant is not None]

    async def create(self, tenant_id: TenantId, *, again: bool = False) -> Tenant:
        """Make a tenant without anything.

        Args:
            again: also where one of this name was deleted.

        Raises:
            ConflictError: there is one of this name, or there was and `again` is not said, or the
            name is reserved.
        """
        _check_not_reserved(tenant_id)
        async with self._database.tenant(tenant_id, "make a tenant") as connection:
            if await connection.fetchrow(sql("read_tenant"), tenant_id) is not None:
                raise ConflictError(f"there is a tenant {tenant_id} already")
            deleted_at = await connection.fetchval(sql("tenant_deleted_at"), tenant_id)
            if deleted_at is not None and not again:
                raise ConflictError(
                    f"a tenant {tenant_id} was deleted at {deleted_at:%Y-%m-%d %H:%M} UTC, "
                    "and what is still on its way for it would come in: choose another "
                    "name, or say --again"
                )
            await connection.execute(sql("forget_tenant_deletion"), tenant_id)
            await connection.execute(sql("add_tenant"), tenant_id)
        made = await self._read(tenant_id)
        assert made is not None
        return made

    async def count_rows(self, tenant_id: TenantId) -> Mapping[str, int]:
        """How many rows a tenant has, by table, and `queue` for its events under way in the
        database; what it has none of is left out.

        Raises:
            NotFoundError: there is no such tenant, and nothing is left of one.
        """
        async with self._database.tenant(tenant_id, "count what a tenant has") as connection:
            rows = await connection.fetch(sql("count_tenant_rows"))
            known = await connection.fetchrow(sql("read_tenant"), tenant_id) is not None
        found = {row["name"]: row["number"] for row in rows}
        if not found and not known:
            raise NotFoundError(
                f"there is no tenant {tenant_id}: `livedex tenants list` shows what there is"
            )
        if queued := sum([len(events) for events in await self._queued(tenant_id)]):
            found["queue"] = queued
        return found

    async def delete(self, tenant_id: TenantId) -> None:
        """Remove everything that a tenant has; afterwards there is none of this name. `default`,
        which every installation has, is emptied: its
        subscribers are those of the configuration, and are told of what comes next.

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
            async with self._database.tenant(tenant_id, "remove what a tenant has") as connection:
                removed = await connection.fetchval(sql("remove_tenant_rows"), _DELETE_BATCH_ROWS)
        # once more: in object storage nobody refuses what came meanwhile
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
        """The rows of the queue that hold events of a tenant, in batches."""
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
            f"{tenant_id} is reserved: it holds the dead letters of records that do not say "
            "whose they are; `livedex dead` takes these away"
        )


def _event_tenant(payload: bytes) -> str | None:
    """Whose event it is; None where the bytes do not say."""
    try:
        data = orjson.loads(payload)["data"]
        return str(data["tenant_id"])
    except (ValueError, KeyError, TypeError):
        return None
