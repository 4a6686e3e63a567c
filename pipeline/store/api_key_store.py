"""Storage of API keys: the hash, tenant and scopes of each. The key itself is never stored."""

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
"""PostgreSQL channel that receives the id of each revoked key."""
_QUERY_TIMEOUT_S = 5.0
"""Statement timeout of key look-ups, which an HTTP request waits for."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as operators see it.

    Attributes:
        key_id: the part of the key that is not secret.
        tenant_id: to which the key gives access.
        name: label for people, such as the holder.
        scopes: of the key.
        created_at: aware.
        expires_at: aware; None: never.
        revoked_at: aware; None: not revoked.
        last_used_at: aware, to the minute; None: never used.
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
    """A key as requests are checked against it. Times are relative to the moment of the look-up, by
    the database's clock.

    Attributes:
        tenant_id: to which the key gives access.
        sha256: of the whole key.
        scopes: of the key.
        revoked: whether it was revoked.
        expires_in_s: seconds until it expires; None: never; negative: it has expired.
        used_before_s: seconds since its last recorded use; None: never used.
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
        """Store a new key; create its tenant if it does not exist.

        Args:
            tenant_id: to which the key gives access.
            key_id: the part of the key that is not secret.
            name: label for people.
            sha256: of the whole key.
            scopes: of the key.
            expires_in_days: > 0; None: the key never expires.

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
        """Return all keys, including revoked ones, by tenant and age, oldest first."""
        found: list[ApiKey] = []
        for tenant_id in await self._database.tenants():
            found += await self.of(tenant_id)
        return found

    async def of(self, tenant_id: TenantId) -> list[ApiKey]:
        """Return the keys of one tenant, including revoked ones, oldest first."""
        async with self._database.tenant(tenant_id, "list keys") as connection:
            return [
                _key(tenant_id, row) for row in await connection.fetch(sql("list_keys"), tenant_id)
            ]

    async def revoke(self, key_id: str) -> None:
        """Revoke a key, and notify all processes. Idempotent.

        Args:
            key_id: of the key.

        Raises:
            NotFoundError: the key does not exist.
        """
        known = await self.find(key_id)
        if known is None:
            raise NotFoundError(f"API key {key_id} not found: `livedex keys list` shows all keys")
        async with self._database.tenant(known.tenant_id, f"key {key_id}") as connection:
            await connection.execute(sql("revoke_key"), known.tenant_id, key_id)

    async def find(self, key_id: str) -> StoredKey | None:
        """Return a key of any tenant; None: not found."""
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
        """Return whether a key was ever created, including revoked, expired and deleted ones."""
        async with self._database.system("look for keys", limit_s=_QUERY_TIMEOUT_S) as connection:
            return bool(await connection.fetchval(sql("was_key_made")))

    async def record_earlier_keys(self) -> None:
        """Record that keys exist, for keys that were created before releases recorded it."""
        if not await self.ever_made() and await self.all():
            async with self._database.system("record existing keys") as connection:
                await connection.execute(sql("note_key_made"))

    async def note_use(self, tenant_id: TenantId, key_id: str) -> None:
        """Record that a key is used now, to the minute."""
        async with self._database.tenant(
            tenant_id, f"use of key {key_id}", durable=False
        ) as connection:
            await connection.execute(sql("note_key_use"), tenant_id, key_id)


def _key(tenant_id: TenantId, row: asyncpg.Record) -> ApiKey:
    return ApiKey(tenant_id=tenant_id, **{**dict(row), "scopes": tuple(row["scopes"])})
