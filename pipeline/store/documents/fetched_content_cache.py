"""The cache of facts about fetched content: validators and chunk digests."""

from __future__ import annotations

from collections.abc import Sequence

from livedex.pipeline.model import Arrival, CacheValidator, DocumentId, Fence, TenantId, shorten_id
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.drafts import CachedContent, DraftChunk, ExtractedMetadata
from livedex.pipeline.store.postgres.statements import sql


class FetchedContentCache:
    """Implements `livedex.pipeline.stages.remote_content.ContentCache` on PostgreSQL.

    Every method may raise OutageError and RetryableError.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def is_superseded(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, arrival: Arrival
    ) -> bool:
        """Return whether a version need not be fetched: it is visible, a newer one is stored, or it
        arrived before a delete without a version.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the version.
            arrival: of its event.
        """
        async with self._database.tenant(
            tenant_id, f"look up {shorten_id(document_id)} v{fence.version}"
        ) as connection:
            return bool(
                await connection.fetchval(
                    sql("is_ended"),
                    tenant_id,
                    document_id,
                    fence.version,
                    fence.digest,
                    arrival.at,
                    arrival.place,
                )
            )

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, basis: bytes
    ) -> CachedContent | None:
        """Return the cached facts about the visible version's content; None: none.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            basis: digest of the settings under which the facts are valid.
        """
        async with self._database.tenant(
            tenant_id, f"read the cached content facts of {shorten_id(document_id)}"
        ) as connection:
            row = await connection.fetchrow(sql("recall_fetched"), tenant_id, document_id, basis)
        if row is None:
            return None
        validator = CacheValidator(
            row["place"], etag=row["etag"], last_modified=row["last_modified"]
        )
        return CachedContent(
            validator, row["made"], row["outcome"], row["error"], ExtractedMetadata(**row["own"])
        )

    async def put(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        basis: bytes,
        known: CachedContent,
    ) -> None:
        """Store facts about the content of a version.

        Args:
            tenant_id: owner of the document.
            document_id: of the document.
            fence: of the version.
            basis: digest of the settings under which the facts are valid.
            known: the facts.
        """
        own, validator = known.own, known.validator
        async with self._database.tenant(
            tenant_id,
            f"store the content facts of {shorten_id(document_id)} v{fence.version}",
            durable=False,
        ) as connection:
            await connection.execute(
                sql("remember_fetched"),
                tenant_id,
                document_id,
                fence.version,
                fence.digest,
                basis,
                validator.place,
                validator.etag,
                validator.last_modified,
                known.chunks_digest,
                known.outcome,
                known.error,
                {"title": own.title, "mime_type": own.mime_type, "metadata": dict(own.metadata)},
            )

    async def visible_pieces(
        self, tenant_id: TenantId, document_id: DocumentId
    ) -> Sequence[DraftChunk]:
        """Return the chunks of the visible version in order."""
        async with self._database.tenant(
            tenant_id, f"read the chunks of {shorten_id(document_id)}"
        ) as connection:
            rows = await connection.fetch(sql("visible_pieces"), tenant_id, document_id)
        return [
            DraftChunk(row["hash"], row["content"], row["gap"], tuple(row["heading"]))
            for row in rows
        ]
