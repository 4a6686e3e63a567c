"""Claims on passages to embed, across processes: two processes never embed the same text at once.

Invariants: a process claims passages first and looks for existing vectors second, so a vector that
was stored meanwhile is not embedded again. No text is sent under an expired lease (`check`), so a
process that was suspended embeds twice at most the texts that were in flight.
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
    """The result of claiming passages. Passages in neither set are claimed by another process.

    Attributes:
        claimed: passages that this process claimed and that have no vector.
        already_embedded: passages that have a vector.
    """

    claimed: frozenset[PassageId]
    already_embedded: frozenset[PassageId]


class EmbeddingClaims:
    """The claims of this process.

    Args:
        database: that holds the claims.
        lease_s: seconds after which other processes may take the claims of a stalled process, > 1.
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

        Args:
            tenant_id: owner of the passages.
            generation_id: in which they are embedded.
            passages: to claim; duplicates count once.

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
        """Return if this process still holds its claims on passages.

        Args:
            keys: passages to check; those that were never claimed pass.

        Raises:
            ClaimLostError: the lease expired after they were claimed; claim them again.
        """
        number = self._lease.number
        if any(self._held.get(key, number) != number for key in keys):
            raise ClaimLostError("the claim on a text expired before the text was sent")

    async def release(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Collection[PassageId]
    ) -> None:
        """Release the claims on passages, whether or not they were embedded.

        Args:
            tenant_id: owner of the passages.
            generation_id: of the claims.
            passages: to release; unclaimed ones are ignored.

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
        """Give up all claims without a database call: other processes may take them when the lease
        expires.
        """
        self._lease.abandon()

    async def close(self) -> None:
        """End the lease, which releases the remaining claims."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._lease.end()


@asynccontextmanager
async def open_embedding_claims(database: Database) -> AsyncIterator[EmbeddingClaims]:
    """Open the claims of this process, and release them at the end of the block.

    Args:
        database: that holds the claims.
    """
    claims = EmbeddingClaims(database)
    try:
        yield claims
    finally:
        await claims.close()
