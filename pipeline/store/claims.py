"""Who embeds which passage now, across processes: a text that two of them meet at the same time is paid for once.

Invariant: whether a vector is there is looked at after the claim is ours, so that nobody pays for what was stored a moment ago.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg

from migrations.runner import APPLICATION_ROLE
from pipeline.model import GenerationId, PassageId, TenantId
from pipeline.store.database import Database, translated
from pipeline.store.statements import sql

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of asking for passages.

    Attributes:
        ours: claimed, and without a vector.
        there: have a vector. All others are under way in another process.
    """

    ours: frozenset[PassageId]
    there: frozenset[PassageId]


class Claims:
    """Claims of this process. The session that proves that it lives is opened at the first claim, and anew after an outage.

    Args:
        url: of the database, for that session.
    """

    def __init__(self, database: Database, url: str) -> None:
        self._database = database
        self._url = url
        self._session: asyncpg.Connection[asyncpg.Record] | None = None
        self._holder = 0
        self._turn = asyncio.Lock()

    async def take(self, tenant_id: TenantId, generation_id: GenerationId, passages: Sequence[PassageId]) -> Taken:
        """Claim passages before they are embedded.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        holder = await self._living()
        async with self._database.tenant(tenant_id, f"claim {len(passages)} passages", durable=False) as connection:
            rows = await connection.fetch(sql("take_claims"), tenant_id, generation_id, sorted(set(passages)), holder)
            found = await connection.fetch(sql("vectors_there", generation_id), tenant_id, list(passages))
        there = frozenset(PassageId(row["passage_id"]) for row in found)
        return Taken(frozenset(PassageId(row["passage_id"]) for row in rows) - there, there)

    async def release(self, tenant_id: TenantId, generation_id: GenerationId, passages: Collection[PassageId]) -> None:
        """Let go of passages, whether they have their vectors or not.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        async with self._database.tenant(tenant_id, f"release {len(passages)} passages", durable=False) as connection:
            await connection.execute(sql("release_claims"), tenant_id, generation_id, list(passages), self._holder)

    async def close(self) -> None:
        """End the session; claims that are left are anybody's."""
        session, self._session = self._session, None
        if session is not None:
            session.terminate()

    async def _living(self) -> int:
        """The number of our lock, with a session that holds it."""
        async with self._turn:
            if self._session is None or self._session.is_closed():
                with translated("claim"):
                    session = await asyncpg.connect(
                        self._url, timeout=10, server_settings={"role": APPLICATION_ROLE, "application_name": "livedex-claims"}
                    )
                    holder = secrets.randbits(62)
                    await session.execute("select pg_advisory_lock($1)", holder)
                self._session, self._holder = session, holder
            return self._holder


@asynccontextmanager
async def open_claims(database: Database, url: str) -> AsyncIterator[Claims]:
    """Claims for as long as the block lasts."""
    claims = Claims(database, url)
    try:
        yield claims
    finally:
        await claims.close()
