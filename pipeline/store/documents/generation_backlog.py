"""What the active generation still lacks: documents that were made visible with vectors of another
model, or without all of theirs.
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
"""Begins the error of a document of which the model refuses a passage; it is found by its words
all the same.
"""
_MAX_TIMESTAMP = datetime(9999, 1, 1, tzinfo=UTC)
_MAX_ID = 2**63 - 1
_PAGE_DOCUMENTS = 500


class BacklogPosition(NamedTuple):
    """A place in the list of documents, the newest changes first."""

    synced_at: datetime = _MAX_TIMESTAMP
    doc_id: int = _MAX_ID


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What is left to do.

    Attributes:
        documents: that are not known to have all their vectors.
        passages: of these, without a vector.
    """

    documents: int = 0
    passages: int = 0


class GenerationBacklog:
    """Finds what a generation lacks. Every call may raise OutageError or RetryableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def tenants(self) -> list[TenantId]:
        """Return every tenant."""
        return await self._database.tenants()

    async def documents(
        self, tenant_id: TenantId, generation_id: GenerationId, after: BacklogPosition, most: int
    ) -> list[BacklogPosition]:
        """Return a page of the documents that are not known to have all their vectors, the newest
        changes first.
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
        """Return passages of documents that have no vector, with their texts, by number.

        Args:
            after: only passages with a greater number.
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
        """Note of documents that have all their vectors that they do; of one with a refused
        passage, also why that has none.

        Returns:
            Which of them are done.
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
        """Look at every document that is said to have all its vectors; those that lack one are to
        be embedded again.
        """
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
        """Count what is left, over all tenants.

        Args:
            generation_id: None for a model that never answered.
        """
        documents = passages = 0
        for tenant_id in await self._database.tenants():
            async with self._database.tenant(
                tenant_id, "count what is left to embed"
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
