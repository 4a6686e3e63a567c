"""Look-up of passages by hash, and insertion of new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import asyncpg

from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.runtime.tenant_shares import in_thread
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.drafts import Draft, DraftChunk
from livedex.pipeline.store.keyword_analyzer import ANALYZER_VERSION, AnalyzedText, analyze_text
from livedex.pipeline.store.postgres.statements import sql

# up to this number of chunks, analysis (70 us each) is faster than a switch to another thread
_INLINE_ANALYSIS_LIMIT = 8


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """The passages of some drafts.

    Attributes:
        numbers: of all passages, by hash.
        new: hashes of passages that were not stored before.
        lacking: hashes of passages without a vector in the given generation; without a generation,
            those of new passages.
    """

    numbers: dict[bytes, PassageId]
    new: set[bytes]
    lacking: set[bytes]


async def find_passages(
    connection: Connection, tenant_id: TenantId, hashes: Iterable[bytes]
) -> dict[bytes, PassageId]:
    """Return the passages that are already stored, by hash."""
    return {
        row["hash"]: PassageId(row["passage_id"])
        for row in await _look_up(connection, tenant_id, hashes, None)
    }


async def save_passages(
    connection: Connection,
    tenant_id: TenantId,
    drafts: Sequence[Draft],
    config: str,
    generation_id: GenerationId | None = None,
    begin: Callable[[Sequence[str]], None] | None = None,
) -> StoredPassages:
    """Insert the new passages of drafts, and protect all their passages from garbage collection.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: owner of the passages.
        drafts: of the tenant.
        config: PostgreSQL text search configuration of the keyword index.
        generation_id: also look for vectors in this generation.
        begin: called with the texts that lack a vector, before they are inserted.
    """
    texts = {piece.hash: piece for draft in drafts for piece in draft.pieces}
    numbers: dict[bytes, PassageId] = {}
    lacking: set[bytes] = set()

    async def look_up(hashes: Iterable[bytes]) -> None:
        for hash_, passage_id, _, lacks in await _look_up_and_retain(
            connection, tenant_id, hashes, generation_id
        ):
            numbers[hash_] = PassageId(passage_id)
            if lacks:
                lacking.add(hash_)

    if texts:
        await look_up(texts)
    new = sorted(texts.keys() - numbers.keys())
    if begin is not None and (new or lacking):
        begin([texts[hash_].content for hash_ in (*new, *lacking)])
    if new:
        numbers |= await _insert(connection, tenant_id, [texts[hash_] for hash_ in new], config)
    lacking.update(hash_ for hash_ in new if hash_ in numbers)
    if len(numbers) < len(texts):  # another transaction inserted some of them meanwhile
        await look_up(new)
    return StoredPassages(numbers, set(new), lacking)


async def _look_up(
    connection: Connection,
    tenant_id: TenantId,
    hashes: Iterable[bytes],
    generation_id: GenerationId | None,
) -> list[asyncpg.Record]:
    """Return hash and number of stored passages, whether they are marked for garbage collection,
    and whether they lack a vector.
    """
    name = "existing_passages" if generation_id is None else "existing_passages_and_vectors"
    rows: list[asyncpg.Record] = await connection.fetch(
        sql(name, generation_id), tenant_id, sorted(hashes)
    )
    return rows


async def _look_up_and_retain(
    connection: Connection,
    tenant_id: TenantId,
    hashes: Iterable[bytes],
    generation_id: GenerationId | None,
) -> list[asyncpg.Record]:
    """Look up passages as `_look_up` does, and protect them from garbage collection."""
    found = await _look_up(connection, tenant_id, hashes, generation_id)
    if any(row["unused"] for row in found):
        await connection.execute(sql("keep_used"), tenant_id, list(hashes))
        # leave out passages that were garbage-collected meanwhile
        return await _look_up(connection, tenant_id, hashes, generation_id)
    return found


async def _insert(
    connection: Connection, tenant_id: TenantId, pieces: Sequence[DraftChunk], config: str
) -> dict[bytes, PassageId]:
    def find_words() -> list[AnalyzedText]:
        return [piece.words or analyze_text(piece.content, config) for piece in pieces]

    words = find_words() if len(pieces) <= _INLINE_ANALYSIS_LIMIT else await in_thread(find_words)
    rows = await connection.fetch(
        sql("insert_passages"),
        tenant_id,
        [piece.hash for piece in pieces],
        [piece.content for piece in pieces],
        [each.words for each in words],
        ["\x1f".join(each.exact) for each in words],
        config,
        [each.spellings for each in words],
        ANALYZER_VERSION,
    )
    return {row["hash"]: PassageId(row["passage_id"]) for row in rows}
