"""Documents without complete vectors in the active generation, because they became visible with
vectors of another model or with passages that the model refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

NOT_EMBEDDED_PREFIX = "not embedded: "
"""Prefix of the error of a document with a passage that the model refuses; keyword search still
finds the document.
"""
_MAX_TIMESTAMP = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_ID = 2**63 - 1
_PAGE_DOCUMENTS = 500


class BacklogPosition(NamedTuple):
    """A position in the list of documents, newest changes first.

    Attributes:
        synced_at: time at which the document became visible, aware.
        doc_id: number of the document.
    """

    synced_at: datetime = _MAX_TIMESTAMP
    doc_id: int = _MAX_ID


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """The remaining work of a generation.

    Attributes:
        documents: number of documents without complete vectors.
        passages: number of their passages without a vector.
    """

    documents: int = 0
    passages: int = 0


class GenerationBacklog:
    """Finds the vectors that a generation lacks.

    Every method may raise OutageError or RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tenants(self) -> list[TenantId]:
        """Return all tenants."""
        return await self._database.tenants()

    async def documents(
        self, tenant_id: TenantId, generation_id: GenerationId, after: BacklogPosition, most: int
    ) -> list[BacklogPosition]:
        """Return a page of the documents without complete vectors, newest changes first.

        Args:
            tenant_id: owner of the documents.
            generation_id: of the vectors.
            after: the last position of the previous page.
            most: maximum number, >= 1.
        """
        async with self._database.tenant(tenant_id, "list documents to embed") as connection:
            rows = await connection.fetch(
                sql("documents_of_other_generations"), tenant_id, generation_id, *after, most
            )
        return [BacklogPosition(row["synced_at"], row["doc_id"]) for row in rows]

    async def lacking(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        documents: Sequence[int],
        after: int,
        most: int,
    ) -> list[tuple[PassageId, str]]:
        """Return the passages of documents without a vector, with their texts, sorted by number.

        Args:
            tenant_id: owner of the documents.
            generation_id: of the vectors.
            documents: their numbers.
            after: lower bound of the passage numbers, exclusive.
            most: maximum number of passages, >= 1.
        """
        async with self._database.tenant(tenant_id, "list passages to embed") as connection:
            rows = await connection.fetch(
                sql("lacking_passages", generation_id), tenant_id, list(documents), after, most
            )
        return [(PassageId(row["passage_id"]), row["content"]) for row in rows]

    async def finish(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        documents: Sequence[int],
        refused: Mapping[PassageId, str],
    ) -> set[int]:
        """Mark documents as complete that now have all vectors, except for refused passages.

        Args:
            tenant_id: owner of the documents.
            generation_id: of the vectors.
            documents: their numbers.
            refused: passages that the model refuses, with the reason.

        Returns:
            The numbers of the complete documents.
        """
        why = [NOT_EMBEDDED_PREFIX + reason for reason in refused.values()]
        async with self._database.tenant(
            tenant_id, f"finish {len(documents)} embedded documents", durable=False
        ) as connection:
            rows = await connection.fetch(
                sql("finish_generation", generation_id),
                tenant_id,
                generation_id,
                list(documents),
                list(refused),
                why,
            )
        return {row["doc_id"] for row in rows}

    async def recheck(self, tenant_id: TenantId, generation_id: GenerationId) -> None:
        """Check all documents that are marked as complete; unmark those that lack a vector."""
        after = 0
        while True:
            async with self._database.tenant(
                tenant_id, "check vectors", durable=False
            ) as connection:
                rows = await connection.fetch(
                    sql("documents_of_generation"), tenant_id, generation_id, after, _PAGE_DOCUMENTS
                )
                if not rows:
                    return
                found = [row["doc_id"] for row in rows]
                await connection.execute(sql("doubt_generation", generation_id), tenant_id, found)
            after = found[-1]

    async def left(self, generation_id: GenerationId | None) -> RemainingWork:
        """Return the remaining work over all tenants.

        Args:
            generation_id: of the vectors; None: the model was never used.
        """
        documents = passages = 0
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(
                tenant_id, "count the documents to embed"
            ) as connection:
                if generation_id is None:
                    row = await connection.fetchrow(sql("everything_left"), tenant_id)
                elif await connection.fetchval(
                    sql("generation_is_incomplete"), tenant_id, generation_id
                ):
                    row = await connection.fetchrow(
                        sql("generation_left", generation_id), tenant_id, generation_id
                    )
                else:
                    continue
            documents, passages = documents + row["documents"], passages + row["passages"]
        return RemainingWork(documents, passages)
