"""Who embeds which passage now, across processes: a text that two of them meet at the same time is
paid for once.

Invariants: whether a vector is there is looked at after the claim is ours, so that nobody pays for
what was stored a moment ago; nothing is sent under a claim whose lease has run out (`check`), so
that a process that was frozen pays for nothing but what was in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeAlias

from livedex.pipeline.errors import ClaimLostError
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.store.claim_lease import LEASE_S, ClaimLease
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

ClaimKey: TypeAlias = tuple[TenantId, GenerationId, PassageId]


@dataclass(frozen=True, slots=True)
class ClaimResult:
    """What became of asking for passages.

    Attributes:
        claimed: claimed, and without a vector.
        there: have a vector. All others are under way in another process.
    """

    claimed: frozenset[PassageId]
    already_embedded: frozenset[PassageId]


class EmbeddingClaims:
    """Claims of this process.

    Args:
        lease_s: seconds that others wait at most for a process that stands still.
    """

    def __init__(self, database: Database, *, lease_s: float = LEASE_S) -> None:
        self._database = database
        self._lease = ClaimLease(database, lease_s=lease_s)
        self._held: dict[ClaimKey, int] = {}
        self._holding = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def take(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Sequence[PassageId]
    ) -> ClaimResult:
        """Claim passages before they are embedded.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        number = await self._lease.hold()
        async with self._database.tenant(
            tenant_id, f"claim {len(passages)} passages", durable=False
        ) as connection:
            asked = sorted(set(passages))
            rows = await connection.fetch(
                sql("take_claims"), tenant_id, generation_id, asked, number, self._lease.lease_s
            )
            found = await connection.fetch(sql("vectors_there", generation_id), tenant_id, asked)
        there = frozenset(PassageId(row["passage_id"]) for row in found)
        claimed = [PassageId(row["passage_id"]) for row in rows]
        self._held.update(((tenant_id, generation_id, passage), number) for passage in claimed)
        if claimed:
            self._holding.set()
            if self._renewing is None:
                self._renewing = asyncio.create_task(
                    self._lease.renew_forever(self._holding), name="renew claims"
                )
        return ClaimResult(frozenset(claimed) - there, there)

    def check(self, keys: Iterable[ClaimKey]) -> None:
        """Pass only if everything that was claimed of some passages is still ours.

        Raises:
            ClaimLostError: the lease ran out since then; claim them again.
        """
        number = self._lease.number
        if any(self._held.get(key, number) != number for key in keys):
            raise ClaimLostError("the claim on a text ran out before it was sent")

    async def release(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Collection[PassageId]
    ) -> None:
        """Let go of passages, whether they have their vectors or not.

        Raises:
            OutageError, RetryableError: as the database does.
        """
        for passage in passages:
            self._held.pop((tenant_id, generation_id, passage), None)
        if not self._held:
            self._holding.clear()
        async with self._database.tenant(
            tenant_id, f"release {len(passages)} passages", durable=False
        ) as connection:
            await connection.execute(
                sql("release_claims"), tenant_id, generation_id, list(passages), self._lease.numbers
            )

    def abandon(self) -> None:
        """Give up everything that is claimed, without the database: it is anybody's once the lease
        has run out.
        """
        self._lease.abandon()

    async def close(self) -> None:
        """End the lease; claims that are left are anybody's soon."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._lease.end()


@asynccontextmanager
async def open_embedding_claims(database: Database) -> AsyncIterator[EmbeddingClaims]:
    """Claims for as long as the block lasts."""
    claims = EmbeddingClaims(database)
    try:
        yield claims
    finally:
        await claims.close()
