"""The vector retriever: the passages nearest to a query, among visible ones that match the filters.

While a tenant is small the scan is exact, with an order that no index serves, so that a neighbour's
rows or an index full of deleted ones can take nothing away. A large tenant is answered by the HNSW
index, in steps; where it gives up before enough was found, the exact scan answers after all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.search.document_filter import DocumentFilter
from livedex.pipeline.store.database import Connection
from livedex.pipeline.store.postgres.statements import sql

# of a tenant: scanned in 9 ms at 256 dimensions; Source: measured, see bench/search.py
MAX_EXACT_SCAN_PASSAGES = 20_000
INDEX_SCAN_SHARE = (
    1 / 40
    # of a tenant's passages: what the index looks at before the exact scan is quicker, and better:
    # where few match, a
)
# scan of the index far from the query finds what it happens to meet. Source: measured, 50,000
# passages and a filter of a thousandth: 180 ms
# and recall@10 0.78 where the index may look at most of them, 8 ms for the exact scan
EF_SEARCH = 200
MAX_EF_SEARCH = 1000


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """Where a query's vector is compared.

    Attributes:
        generation_id: whose vectors.
        query: of length 1.
        indexed_passages: how many the tenant has, where its HNSW index stands and they are enough
            for it; 0: the scan is exact.
        ef_search: as asked for; None: the default.
    """

    generation_id: GenerationId
    query: HalfVector
    indexed_passages: int = 0
    ef_search: int | None = None


def unit_vector(values: Sequence[float] | NDArray[np.float32]) -> HalfVector:
    """A vector of length 1 in the precision that is stored.

    Args:
        values: finite, not all zero.
    """
    vector = np.asarray(values, dtype=np.float64)
    return HalfVector(vector / np.linalg.norm(vector))


def displayed_score(similarity: float) -> float:
    """A cosine similarity as it is shown: in [0, 1], negative ones as 0."""
    return min(1.0, max(0.0, similarity))


async def retrieve_nearest(
    connection: Connection,
    tenant_id: TenantId,
    space: VectorQuery,
    selection: DocumentFilter,
    wanted: int,
) -> dict[int, float]:
    """The cosine similarity of the nearest passages, best first; as many as wanted, and those as
    near as the last.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: the tenant.
        space: the generation and the vector that is compared.
        selection: the documents that the search may use.
        wanted: passages at least, where so many match.
    """
    if space.indexed_passages:
        rows = await _indexed(connection, tenant_id, space, selection, wanted)
        if len(rows) >= wanted:
            return _similarities(rows)
    elif selection.is_unrestricted:
        taken = wanted + wanted // 4 + 20  # some are of documents that are gone
        rows = await connection.fetch(
            sql("nearest_passages", space.generation_id), tenant_id, space.query, taken
        )
        visible = [row for row in rows if row["visible"]]
        if len(rows) < taken or (
            len(visible) >= wanted and visible[wanted - 1]["distance"] < rows[-1]["distance"]
        ):
            return _similarities(visible)
    rows = await connection.fetch(
        sql("nearest_matches", space.generation_id),
        tenant_id,
        space.query,
        wanted,
        *selection.arguments,
    )
    return _similarities(rows)


async def _indexed(
    connection: Connection,
    tenant_id: TenantId,
    space: VectorQuery,
    selection: DocumentFilter,
    wanted: int,
) -> list[Any]:
    breadth = min(MAX_EF_SEARCH, max(space.ef_search or EF_SEARCH, wanted))
    scanned = max(int(space.indexed_passages * INDEX_SCAN_SHARE), 4 * wanted)
    await connection.fetchrow(sql("tune_vector_index"), str(breadth), str(scanned))
    return list(
        await connection.fetch(
            sql("nearest_indexed", space.generation_id),
            tenant_id,
            space.query,
            wanted,
            *selection.arguments,
        )
    )


async def similarities(
    connection: Connection,
    tenant_id: TenantId,
    space: VectorQuery,
    passage_ids: Sequence[int],
    *,
    vectors: bool = False,
) -> tuple[dict[int, float], dict[int, list[float]]]:
    """The similarity of known passages, and their vectors where these are wanted; those without a
    vector are left out.
    """
    rows = await connection.fetch(
        sql("distances", space.generation_id), tenant_id, space.query, list(passage_ids), vectors
    )
    return _similarities(rows), {
        row["passage_id"]: row["embedding"].to_list()
        for row in rows
        if row["embedding"] is not None
    }


def _similarities(rows: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    return {row["passage_id"]: 1.0 - row["distance"] for row in rows}
