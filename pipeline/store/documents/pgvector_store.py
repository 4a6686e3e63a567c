"""The store on PostgreSQL with pgvector.

Invariants:
- The statement that writes also checks the version fence.
- All transactions lock in the same order, which prevents deadlocks: documents first, by id; then
  passages by hash; then vectors by passage number.
- A transaction locks a document's row before it changes the document's chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from livedex.pipeline.costs.bill import EmbeddedPassages, ModelPrice
from livedex.pipeline.costs.charges import EmbeddingCharges
from livedex.pipeline.embedding.vectors import MAX_DIMENSIONS
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.model import (
    Arrival,
    Attributes,
    DocumentId,
    Fence,
    GenerationId,
    ManifestEntry,
    PassageId,
    TenantId,
    shorten_id,
)
from livedex.pipeline.store.cost_ledger import charge_embeddings
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.access_updates import apply_access_updates
from livedex.pipeline.store.documents.document_fields import FieldSettings
from livedex.pipeline.store.documents.document_sync import (
    acl_column,
    apply_versions,
    insert_vectors,
    sync_versions,
    version_columns,
)
from livedex.pipeline.store.documents.manifests import insert_manifests
from livedex.pipeline.store.documents.passages import find_passages, save_passages
from livedex.pipeline.store.drafts import (
    AccessUpdate,
    Draft,
    MissingVectors,
    PassageCounts,
    PreparedVersion,
    SyncResult,
)
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.protocol import VersionKey


class PgVectorStore:
    """Implements `VectorStore` on PostgreSQL.

    Args:
        database: connected as the application's role.
        text_search_config: PostgreSQL text search configuration of the keyword index.
        searched_metadata: metadata keys whose values are indexed together with the title.
        model: that embeds, for the ledger of costs; None: nothing is charged.
    """

    def __init__(
        self,
        database: Database,
        *,
        text_search_config: str = "english",
        searched_metadata: Sequence[str] = (),
        model: ModelPrice | None = None,
    ) -> None:
        self._database = database
        self._model = model
        self._config = text_search_config
        self._fields = FieldSettings(text_search_config, tuple(searched_metadata))

    async def ensure_generation(self, model_id: str, dimensions: int) -> GenerationId:
        """Return the generation of a model, created with its vector table if it is missing.

        Args:
            model_id: of the embedder.
            dimensions: of its vectors, 1 to `MAX_DIMENSIONS`.

        Raises:
            ConfigError: pgvector cannot index this many dimensions.
        """
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ConfigError(
                f"{model_id} has {dimensions} dimensions, pgvector indexes at most "
                f"{MAX_DIMENSIONS}: choose another LIVEDEX_EMBEDDER, or set LIVEDEX_DIMENSIONS "
                "lower if the model can shorten its vectors (text-embedding-3-…)"
            )
        async with self._database.system(f"generation of {model_id}") as connection:
            return GenerationId(
                await connection.fetchval(sql("ensure_generation"), model_id, dimensions)
            )

    async def accept(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        attributes: Attributes,
        accepted_at: datetime,
        arrival: Arrival | None = None,
    ) -> bool:
        """Record that a version is being processed; False if it is superseded."""
        draft = Draft(tenant_id, document_id, fence, "", attributes, accepted_at, arrival=arrival)
        async with self._database.tenant(
            tenant_id, f"accept {shorten_id(document_id)} v{fence.version}", durable=False
        ) as connection:
            return bool(await self._accept(connection, [draft]))

    async def _accept(self, connection: Connection, drafts: Sequence[Draft]) -> set[DocumentId]:
        """Return the documents whose draft is the newest version."""
        of, arrivals = [draft.attributes for draft in drafts], [draft.arrived for draft in drafts]
        rows = await connection.fetch(
            sql("accept_documents"),
            drafts[0].tenant_id,
            *version_columns((d.document_id, d.fence) for d in drafts),
            [a.collection for a in of],
            [a.source for a in of],
            [a.title for a in of],
            [a.uri for a in of],
            [a.mime_type for a in of],
            [dict(a.metadata) for a in of],
            [a.changed_at for a in of],
            [draft.accepted_at for draft in drafts],
            acl_column(of),
            [a.at for a in arrivals],
            [a.partition for a in arrivals],
            [a.offset for a in arrivals],
        )
        return {DocumentId(row["document_id"]) for row in rows}

    async def delete_arrived_before(
        self, tenant_id: TenantId, document_id: DocumentId, arrival: Arrival
    ) -> int | None:
        """Apply a delete without a version; return the newest stored version."""
        async with self._database.tenant(
            tenant_id, f"delete {shorten_id(document_id)}"
        ) as connection:
            found: int | None = await connection.fetchval(
                sql("clear_before"), tenant_id, document_id, arrival.at, arrival.place
            )
        return found

    async def apply_access_updates(
        self, tenant_id: TenantId, guarded: Sequence[AccessUpdate]
    ) -> None:
        """Apply ACLs and hide deleted documents before their versions are processed."""
        await apply_access_updates(self._database, tenant_id, guarded)

    async def existing_hashes(
        self, tenant_id: TenantId, hashes: Sequence[bytes]
    ) -> Mapping[bytes, PassageId]:
        """Return the passages that are already stored, by hash."""
        async with self._database.tenant(tenant_id, "look up passages") as connection:
            return await find_passages(connection, tenant_id, hashes)

    async def save_drafts(self, drafts: Sequence[Draft]) -> list[int | None]:
        """Store versions with their manifests and new passages, without making them visible."""
        tenant_id, first = drafts[0].tenant_id, drafts[0]
        async with self._database.tenant(
            tenant_id,
            f"store {len(drafts)} manifests, the first of {shorten_id(first.document_id)} "
            f"v{first.fence.version}",
            durable=False,
        ) as connection:
            current = await self._accept(connection, drafts)
            kept = [draft for draft in drafts if draft.document_id in current]
            stored = await save_passages(connection, tenant_id, kept, self._config)
            found: dict[DocumentId, int] = {}
            new, counted = set(stored.new), []
            for draft in kept:
                lengths = {piece.hash: len(piece.content) for piece in draft.pieces}
                own = lengths.keys() & new
                found[draft.document_id] = len(own)
                counted.append(
                    replace(
                        draft,
                        work=PassageCounts(
                            len(own), len(lengths) - len(own), sum(lengths[each] for each in own)
                        ),
                    )
                )
                new -= own  # a passage counts as new for the first document that contains it
            await insert_manifests(
                connection,
                [
                    (draft, [stored.numbers[piece.hash] for piece in draft.pieces])
                    for draft in counted
                ],
            )
        return [found.get(draft.document_id) for draft in drafts]

    async def prepare(
        self,
        draft: Draft,
        generation_id: GenerationId,
        begin: Callable[[Sequence[str]], None] | None = None,
    ) -> PreparedVersion | None:
        """Accept a version and store its passages; None if it is superseded."""
        tenant_id = draft.tenant_id
        what = f"prepare {shorten_id(draft.document_id)} v{draft.fence.version}"
        async with self._database.tenant(tenant_id, what, durable=False) as connection:
            if not await self._accept(connection, [draft]):
                return None
            stored = await save_passages(
                connection, tenant_id, [draft], self._config, generation_id, begin
            )
        texts = {piece.hash: piece.content for piece in draft.pieces}
        missing = [(stored.numbers[hash_], texts[hash_]) for hash_ in stored.lacking]
        entries = [
            ManifestEntry(stored.numbers[piece.hash], piece.gap, len(piece.content), piece.heading)
            for piece in draft.pieces
        ]
        return PreparedVersion(
            draft, generation_id, tuple(entries), len(stored.new), sorted(missing)
        )

    async def sync_prepared(
        self,
        prepared: PreparedVersion,
        vectors: Mapping[PassageId, NDArray[np.float32]] | None = None,
        embedded: EmbeddedPassages | None = None,
    ) -> SyncResult:
        """Atomically publish a prepared version unless a newer one is visible."""
        draft = replace(prepared.draft, embedded=embedded)
        async with self._database.tenant(
            draft.tenant_id, f"sync {shorten_id(draft.document_id)} v{draft.fence.version}"
        ) as connection:
            done = await apply_versions(
                connection,
                draft.tenant_id,
                [(draft, prepared.entries)],
                prepared.generation_id,
                self._fields,
                vectors,
                self._model,
            )
        return done[0]

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """Return the passages of a manifest without a vector; None if it is superseded."""
        versions = [(document_id, fence)]
        return (await self.missing_vectors_batch(tenant_id, versions, generation_id))[0]

    async def missing_vectors_batch(
        self, tenant_id: TenantId, versions: Sequence[VersionKey], generation_id: GenerationId
    ) -> list[MissingVectors | None]:
        """Return the result of `missing_vectors` for each version, in order."""
        document_id, fence = versions[0]
        what = (
            f"read the passages of {len(versions)} manifests, the first of "
            f"{shorten_id(document_id)} v{fence.version}"
        )
        async with self._database.tenant(tenant_id, what) as connection:
            rows = await connection.fetch(
                sql("missing_vectors", generation_id), tenant_id, *version_columns(versions)
            )
        missing: dict[int, MissingVectors] = {}
        for place, passage_id, content in rows:
            of_manifest = missing.setdefault(place, [])
            if passage_id is not None:
                of_manifest.append((PassageId(passage_id), content))
        return [missing.get(place) for place in range(1, len(versions) + 1)]

    async def upsert_vectors(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        vectors: Mapping[PassageId, NDArray[np.float32]],
        *,
        durable: bool = True,
        charges: EmbeddingCharges | None = None,
    ) -> None:
        """Store vectors; existing vectors stay unchanged."""
        async with self._database.tenant(
            tenant_id, f"store {len(vectors)} vectors", durable=durable
        ) as connection:
            charged = dict(charges.by_passage) if charges is not None else {}
            if charges is not None and charges.is_retry:
                for row in await connection.fetch(
                    sql("vectors_there", generation_id), tenant_id, list(charged)
                ):
                    charged.pop(PassageId(row["passage_id"]), None)
            await insert_vectors(connection, tenant_id, generation_id, vectors)
            if self._model is not None:
                await charge_embeddings(connection, tenant_id, self._model, charged)

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """Atomically publish the manifest of a version unless a newer one is visible.

        Raises:
            RejectedError: the manifest does not exist, and this version is not the visible one.
        """
        done = (await self.sync_documents(tenant_id, [(document_id, fence)], generation_id))[0]
        if isinstance(done, Exception):
            raise done
        return done

    async def sync_documents(
        self,
        tenant_id: TenantId,
        versions: Sequence[VersionKey],
        generation_id: GenerationId | None,
    ) -> list[SyncResult | Exception]:
        """Publish versions of different documents in one transaction."""
        document_id, fence = versions[0]
        what = (
            f"sync {len(versions)} documents, the first of them {shorten_id(document_id)} "
            f"v{fence.version}"
        )
        async with self._database.tenant(tenant_id, what) as connection:
            return await sync_versions(
                connection, tenant_id, versions, generation_id, self._fields, self._model
            )

    async def delete_document(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence
    ) -> SyncResult:
        """Delete a document and leave a tombstone, unless a newer version is visible."""
        now = datetime.now().astimezone()
        await self.accept(tenant_id, document_id, fence, Attributes(), now)
        async with self._database.tenant(
            tenant_id, f"delete {shorten_id(document_id)} v{fence.version}"
        ) as connection:
            draft = Draft(tenant_id, document_id, fence, "deleted", Attributes(), now)
            done = await apply_versions(connection, tenant_id, [(draft, ())], None, self._fields)
            return done[0]

    async def health(self) -> None:
        """Return if the database answers; otherwise raise OutageError."""
        async with self._database.system("health") as connection:
            await connection.fetchval("select 1")
