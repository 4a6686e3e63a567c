"""What hits carry on demand: highlights, neighbouring chunks, and other documents with the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livedex.pipeline.model import TenantId
from livedex.pipeline.search.answer import ContextChunk, Hit
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.search.highlights import fragments, matching_spans, read_lexemes
from livedex.pipeline.search.ranking import RankedChunk
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql


async def add_highlights(
    connection: Connection,
    config: str,
    hits: Sequence[Hit],
    contents: Sequence[str],
    query: str,
    words: Sequence[str],
) -> None:
    """Give hits their excerpts.

    Args:
        connection: in a transaction of the tenant.
        config: PostgreSQL's text search configuration.
        hits: of the answer; they are changed.
        contents: of each hit.
        query: as it was asked.
        words: lexemes of the query.
    """
    lexemes = await read_lexemes(connection, config, contents)
    wanted = frozenset(words)
    for hit, content in zip(hits, contents, strict=True):
        hit["highlights"] = fragments(content, matching_spans(content, query, wanted, lexemes))


async def add_other_documents(
    connection: Connection,
    tenant_id: TenantId,
    selection: DocumentFilter,
    hits: Sequence[Hit],
    ranked: Sequence[RankedChunk],
) -> None:
    """Name in each hit the other documents that show its passage and may be read."""
    names = sorted({name for chunk in ranked for name in chunk.also_in})
    rows = await connection.fetch(sql("readable_names"), tenant_id, names, selection.principals)
    known: Mapping[str, Mapping[str, Any]] = {row["document_id"]: dict(row) for row in rows}
    for hit, chunk in zip(hits, ranked, strict=True):
        hit["also_in"] = [dict(known[name]) for name in chunk.also_in if name in known]


async def add_context(
    connection: Connection,
    tenant_id: TenantId,
    selection: DocumentFilter,
    hits: Sequence[Hit],
    radius: int,
) -> list[Hit]:
    """Give hits the chunks around them; a hit within the context of a better one is merged into it.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        selection: the documents that the search may use.
        hits: of the answer; they are changed.
        radius: chunks before and after.

    Returns:
        The hits that are left, in order.
    """
    rows = await connection.fetch(
        sql("neighbouring_chunks"),
        tenant_id,
        [hit["document_id"] for hit in hits],
        [hit["chunk_index"] for hit in hits],
        radius,
        selection.principals,
    )
    chunks: dict[str, dict[int, ContextChunk]] = {}
    for row in rows:
        chunks.setdefault(row["document_id"], {})[row["chunk_index"]] = {
            "chunk_index": row["chunk_index"],
            "content": row["content"],
            "start": row["start"],
            "end": row["end"],
        }
    windows: dict[str, list[tuple[Hit, list[int]]]] = {}
    left: list[Hit] = []
    for hit in hits:
        index = hit["chunk_index"]
        mine = windows.setdefault(hit["document_id"], [])
        low, high = index - radius, index + radius
        touched = next(
            (window for _, window in mine if window[0] <= high + 1 and low <= window[1] + 1), None
        )
        if touched is None:
            mine.append((hit, [low, high]))
            left.append(hit)
        else:
            touched[:] = [min(touched[0], low), max(touched[1], high)]
    for document_id, mine in windows.items():
        found = chunks.get(document_id, {})
        for hit, (low, high) in mine:
            hit["context"] = [found[n] for n in range(low, high + 1) if n in found]
    return left
