"""The store on PostgreSQL with pgvector.

Invariants: the version fence stands in the statement that writes; passages are inserted in the order of their hashes, vectors in the
order of their numbers, so that two documents that share texts never wait for each other in a circle; a document's row is locked
before its chunks are touched.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from pipeline.errors import ConfigError, RejectedError
from pipeline.model import Attributes, DocumentId, Entry, Fence, GenerationId, PassageId, TenantId
from pipeline.store.alignment import Row, align
from pipeline.store.database import Connection, Database
from pipeline.store.manifests import insert_manifests, read_manifest
from pipeline.store.protocol import Draft, Piece, Synced
from pipeline.store.statements import sql
from pipeline.store.words import for_index

MAX_DIMENSIONS = 4000  # of an HNSW index over halfvec; Source: pgvector's README, "HNSW"
ENDED_CHANNEL = "livedex_ended"


def ended_key(tenant_id: str, document_id: str) -> str:
    """What is sent on `ENDED_CHANNEL` when an event of the document has ended."""
    return hashlib.sha256(f"{tenant_id}\x00{document_id}".encode()).hexdigest()


class PgVectorStore:
    """`VectorStore` on PostgreSQL; see there for the methods.

    Args:
        database: as the application's role.
        text_search_config: PostgreSQL's name of the language of the keyword index.
    """

    def __init__(self, database: Database, *, text_search_config: str = "english") -> None:
        self._database = database
        self._config = text_search_config

    async def ensure_schema(self, model_id: str, dimensions: int) -> GenerationId:
        if not 1 <= dimensions <= MAX_DIMENSIONS:
            raise ConfigError(
                f"{model_id} has {dimensions} dimensions, pgvector indexes at most {MAX_DIMENSIONS}: set LIVEDEX_DIMENSIONS lower or choose another model"
            )
        async with self._database.system(f"generation of {model_id}") as connection:
            return GenerationId(await connection.fetchval(sql("ensure_generation"), model_id, dimensions))

    async def accept(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, attributes: Attributes, accepted_at: datetime
    ) -> bool:
        async with self._database.tenant(tenant_id, f"accept {document_id} v{fence.version}", durable=False) as connection:
            return await self._accept(connection, tenant_id, document_id, fence, attributes, accepted_at)

    async def _accept(
        self, connection: Connection, tenant_id: TenantId, document_id: DocumentId, fence: Fence, a: Attributes, accepted_at: datetime
    ) -> bool:
        found = await connection.fetchval(
            sql("accept_document"), tenant_id, document_id, fence.version, fence.digest, a.collection, a.source, a.title, a.uri, a.mime_type,
            dict(a.metadata), a.changed_at, accepted_at,
        )  # fmt: skip
        return found is not None

    async def existing_hashes(self, tenant_id: TenantId, hashes: Sequence[bytes]) -> Mapping[bytes, PassageId]:
        async with self._database.tenant(tenant_id, "look up passages") as connection:
            return await self._existing(connection, tenant_id, hashes)

    async def _existing(self, connection: Connection, tenant_id: TenantId, hashes: Sequence[bytes]) -> dict[bytes, PassageId]:
        rows = await connection.fetch(sql("existing_passages"), tenant_id, list(hashes))
        return {row["hash"]: PassageId(row["passage_id"]) for row in rows}

    async def keep_drafts(self, drafts: Sequence[Draft]) -> list[int | None]:
        new: dict[int, int] = {}
        order = sorted(range(len(drafts)), key=lambda i: (drafts[i].document_id, drafts[i].fence.version, drafts[i].fence.digest))
        what = f"{len(drafts)} manifests from {drafts[order[0]].document_id} v{drafts[order[0]].fence.version} on"
        async with self._database.tenant(drafts[0].tenant_id, what, durable=False) as connection:
            for i in order:
                d = drafts[i]
                if await self._accept(connection, d.tenant_id, d.document_id, d.fence, d.attributes, d.accepted_at):
                    new[i] = 0
            known, inserted = await self._passages_of(connection, drafts[0].tenant_id, [drafts[i] for i in new])
            for i in new:
                new[i] = len({piece.hash for piece in drafts[i].pieces} & inserted)
                inserted -= {piece.hash for piece in drafts[i].pieces}  # new to the first that shows it
            await insert_manifests(connection, [(drafts[i], [known[piece.hash] for piece in drafts[i].pieces]) for i in new])
        return [new.get(i) for i in range(len(drafts))]

    async def _passages_of(
        self, connection: Connection, tenant_id: TenantId, drafts: Sequence[Draft]
    ) -> tuple[dict[bytes, PassageId], set[bytes]]:
        """The passages of some drafts, and which of them were not known until now."""
        texts = {piece.hash: piece for draft in drafts for piece in draft.pieces}
        if not texts:
            return {}, set()
        await connection.execute(sql("keep_used"), tenant_id, list(texts))
        known = await self._existing(connection, tenant_id, list(texts))
        new = sorted(hash_ for hash_ in texts if hash_ not in known)
        if new:
            known |= await self._insert_passages(connection, tenant_id, [texts[hash_] for hash_ in new])
        if len(known) < len(texts):  # another document brought some of them meanwhile
            known |= await self._existing(connection, tenant_id, new)
        return known, set(new)

    async def _insert_passages(self, connection: Connection, tenant_id: TenantId, pieces: Sequence[Piece]) -> dict[bytes, PassageId]:
        words = [piece.words for piece in pieces if piece.words is not None]
        if len(words) < len(pieces):
            words = await asyncio.to_thread(lambda: [piece.words or for_index(piece.content) for piece in pieces])
        rows = await connection.fetch(
            sql("insert_passages"), tenant_id, [piece.hash for piece in pieces], [piece.content for piece in pieces],
            [text for text, _ in words], ["\x1f".join(exact) for _, exact in words], self._config,
        )  # fmt: skip
        return {row["hash"]: PassageId(row["passage_id"]) for row in rows}

    async def missing_vectors(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, generation_id: GenerationId
    ) -> list[tuple[PassageId, str]] | None:
        async with self._database.tenant(tenant_id, f"passages of {document_id} v{fence.version}") as connection:
            if not await connection.fetchval(sql("is_current"), tenant_id, document_id, fence.version, fence.digest):
                return None
            rows = await connection.fetch(sql("missing_vectors", generation_id), tenant_id, document_id, fence.version, fence.digest)
        return [(PassageId(row["passage_id"]), row["content"]) for row in rows]

    async def upsert(self, tenant_id: TenantId, generation_id: GenerationId, vectors: Mapping[PassageId, NDArray[np.float32]]) -> None:
        ids = sorted(vectors)
        async with self._database.tenant(tenant_id, f"keep {len(ids)} vectors") as connection:
            await connection.execute(sql("insert_vectors", generation_id), tenant_id, ids, [HalfVector(vectors[i]) for i in ids])

    async def sync_document(self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, generation_id: GenerationId | None) -> Synced:
        async with self._database.tenant(tenant_id, f"sync {document_id} v{fence.version}") as connection:
            draft, entries = await read_manifest(connection, tenant_id, document_id, fence)
            if draft is None:
                return await self._without_manifest(connection, tenant_id, document_id, fence)
            return await self._swap(connection, draft, entries, generation_id)

    async def _without_manifest(self, connection: Connection, tenant_id: TenantId, document_id: DocumentId, fence: Fence) -> Synced:
        row = await connection.fetchrow(sql("document_fence"), tenant_id, document_id)
        mine = (fence.version, fence.digest)
        if row is not None and row["version"] is not None and (row["version"], row["digest"]) >= mine:
            return Synced(current=False)
        if row is not None and row["pending_version"] is not None and (row["pending_version"], row["pending_digest"]) > mine:
            return Synced(current=False)
        raise RejectedError(f"{document_id} v{fence.version} has no manifest: send the document again", reason="no_manifest")

    async def _swap(self, connection: Connection, draft: Draft, entries: Sequence[Entry], generation_id: GenerationId | None) -> Synced:
        tenant_id, document_id = draft.tenant_id, draft.document_id
        doc_id = await self._fence(connection, draft, len(entries), generation_id)
        if doc_id is None:
            await connection.execute(sql("discard_manifests"), tenant_id, document_id, draft.fence.version, draft.fence.digest)
            return Synced(current=False)
        await connection.execute(
            sql("end_sync"), tenant_id, document_id, draft.fence.version, draft.fence.digest, draft.attributes.collection,
            ended_key(tenant_id, document_id),
        )  # fmt: skip
        if draft.keep:
            return Synced(current=True)
        rows = await connection.fetch(sql("read_chunks"), tenant_id, doc_id)
        old = [Row(r["position"], Entry(PassageId(r["passage_id"]), r["gap"], r["length"], tuple(r["heading"]))) for r in rows]
        swap = align(old, entries)
        if swap.delete:
            await connection.execute(sql("delete_chunks"), tenant_id, doc_id, swap.delete)
        if swap.insert:
            places = [r.position for r in swap.insert]
            new = [r.entry for r in swap.insert]
            await connection.execute(
                sql("insert_chunks"), tenant_id, doc_id, places, [e.passage_id for e in new], [e.gap for e in new], [e.length for e in new],
                [list(e.heading) for e in new],
            )  # fmt: skip
        if swap.update:
            await connection.execute(
                sql("update_chunks"), tenant_id, doc_id, [r.position for r in swap.update], [r.entry.gap for r in swap.update],
                [r.entry.length for r in swap.update], [list(r.entry.heading) for r in swap.update],
            )  # fmt: skip
        return Synced(True, len(entries), len(swap.insert), len(swap.delete), len(swap.update))

    async def _fence(self, connection: Connection, draft: Draft, chunks: int, generation_id: GenerationId | None) -> int | None:
        """The number of the document when this version won, with its row locked."""
        a, fence = draft.attributes, draft.fence
        if draft.keep:
            found = await connection.fetchval(
                sql("fence_keeping_chunks"), draft.tenant_id, draft.document_id, fence.version, fence.digest, draft.outcome, draft.error
            )
        else:
            found = await connection.fetchval(
                sql("fence_document"), draft.tenant_id, draft.document_id, fence.version, fence.digest, draft.outcome, a.collection, a.source,
                a.title, a.uri, a.mime_type, dict(a.metadata), a.changed_at, draft.cut, generation_id, chunks, draft.error,
            )  # fmt: skip
        return None if found is None else int(found)

    async def delete_document(self, tenant_id: TenantId, document_id: DocumentId, fence: Fence) -> Synced:
        now = datetime.now().astimezone()
        await self.accept(tenant_id, document_id, fence, Attributes(), now)
        async with self._database.tenant(tenant_id, f"delete {document_id} v{fence.version}") as connection:
            return await self._swap(connection, Draft(tenant_id, document_id, fence, "deleted", Attributes(), now), (), None)

    async def health(self) -> None:
        async with self._database.system("health") as connection:
            await connection.fetchval("select 1")
