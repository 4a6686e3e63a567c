"""API keys as they are kept: a hash of each, whose it is, and what it allows.

The key itself stands nowhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

REVOKED_CHANNEL = "livedex_keys"
"""Told the id of each key that opens nothing any more."""
_QUERY_TIMEOUT_S = 5.0
"""For what is asked of keys while a request waits."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as an operator sees it.

    Attributes:
        key_id: the part of it that is no secret.
        name: who holds it, for people.
        expires_at: None: never.
        last_used_at: to the minute; None: never.
    """

    key_id: str
    tenant_id: TenantId
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is checked; times are seconds from when it was asked for, by the database's
    clock.

    Attributes:
        sha256: of the whole key.
        expires_in_s: None: never; negative: it has expired.
        used_before_s: since its last noted use; None: never used.
    """

    tenant_id: TenantId
    sha256: bytes
    scopes: tuple[str, ...]
    revoked: bool
    expires_in_s: float | None
    used_before_s: float | None


class ApiKeyStore:
    """The keys of every tenant. Every method may raise OutageError and RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self,
        tenant_id: TenantId,
        key_id: str,
        name: str,
        sha256: bytes,
        scopes: Collection[str],
        expires_in_days: float | None,
    ) -> ApiKey:
        """Keep a new key; its tenant is made with it where there is none of this name.

        Raises:
            TenantDeletedError: the tenant was deleted.
        """
        async with self._database.tenant(tenant_id, f"key {key_id}") as connection:
            await connection.execute(sql("add_tenant"), tenant_id)
            row = await connection.fetchrow(
                sql("create_key"), tenant_id, key_id, name, sha256, sorted(scopes), expires_in_days
            )
        return _key(tenant_id, row)

    async def all(self) -> list[ApiKey]:
        """Every key, revoked ones too, oldest first within a tenant."""
        found: list[ApiKey] = []
        for tenant_id in await self._database.tenants():
            found += await self.of(tenant_id)
        return found

    async def of(self, tenant_id: TenantId) -> list[ApiKey]:
        """The keys of one tenant, revoked ones too, oldest first."""
        async with self._database.tenant(tenant_id, "list keys") as connection:
            return [
                _key(tenant_id, row) for row in await connection.fetch(sql("list_keys"), tenant_id)
            ]

    async def revoke(self, key_id: str) -> None:
        """Let a key open nothing any more; every process is told. Revoking again changes nothing.

        Raises:
            NotFoundError: there is no such key.
        """
        known = await self.find(key_id)
        if known is None:
            raise NotFoundError(
                f"there is no key {key_id}: `livedex keys list` shows what there is"
            )
        async with self._database.tenant(known.tenant_id, f"key {key_id}") as connection:
            await connection.execute(sql("revoke_key"), known.tenant_id, key_id)

    async def find(self, key_id: str) -> StoredKey | None:
        """What is known of a key, whosever it is; None where there is none."""
        async with self._database.system("find a key", limit_s=_QUERY_TIMEOUT_S) as connection:
            row = await connection.fetchrow(sql("find_key"), key_id)
        if row is None:
            return None
        return StoredKey(
            TenantId(row["tenant_id"]),
            row["sha256"],
            tuple(row["scopes"]),
            row["revoked"],
            row["expires_in_s"],
            row["used_before_s"],
        )

    async def ever_made(self) -> bool:
        """Return whether a key was ever made, also one that is revoked, expired or deleted."""
        async with self._database.system("look for keys", limit_s=_QUERY_TIMEOUT_S) as connection:
            return bool(await connection.fetchval(sql("was_key_made")))

    async def record_earlier_keys(self) -> None:
        """Note that keys were made before this was noted at their making, if there are any,
        whatever they open.
        """
        if not await self.ever_made() and await self.all():
            async with self._database.system("note that there are keys") as connection:
                await connection.execute(sql("note_key_made"))

    async def note_use(self, tenant_id: TenantId, key_id: str) -> None:
        """Note that a key is used now; to the minute."""
        async with self._database.tenant(
            tenant_id, f"use of key {key_id}", durable=False
        ) as connection:
            await connection.execute(sql("note_key_use"), tenant_id, key_id)


def _key(tenant_id: TenantId, row: asyncpg.Record) -> ApiKey:
    return ApiKey(tenant_id=tenant_id, **{**dict(row), "scopes": tuple(row["scopes"])})
