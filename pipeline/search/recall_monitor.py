"""Measure what the vector index finds of an exact scan, and look as far as the target needs.

An approximate index loses recall as it grows. For each tenant that is answered by it, a sample of
queries runs both ways. `ef_search` is doubled until the index finds the target share of the ten
nearest passages; searches of the tenant use the value that was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from livedex.pipeline.model import GenerationId, TenantId
from livedex.pipeline.search.vector_retriever import EF_SEARCH, unit_vector
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.documents.vector_index import index_name
from livedex.pipeline.store.postgres.statements import sql

TARGET_RECALL = 0.97
NEAREST = 10  # passages that are compared
LARGEST_EF_SEARCH = 800  # that is tried; above it a larger index is quicker
_EXACT, _INDEXED = "nearest_exactly", "nearest_by_index"  # statements
_SAMPLE_QUERIES = 40
_GROWTH = 0.2  # share of the passages that came or went, after which it is measured again


@dataclass(frozen=True, slots=True)
class RecallMeasurement:
    """What the index of one tenant finds.

    Attributes:
        ef_search: that reaches the target, or the largest that was tried.
        recall: share of the nearest passages of an exact scan that the index found, in [0, 1].
    """

    ef_search: int
    recall: float

    @property
    def reaches_target(self) -> bool:
        """Whether the index finds enough."""
        return self.recall >= TARGET_RECALL

    @property
    def needs_larger_index(self) -> bool:
        """Whether no `ef_search` that is tried reaches the target."""
        return not self.reaches_target and self.ef_search >= LARGEST_EF_SEARCH


async def learned_ef_search(
    connection: Connection, tenant_id: TenantId, generation_id: GenerationId
) -> int | None:
    """Return the `ef_search` that reached the target; None if it was not measured yet."""
    found: int | None = await connection.fetchval(
        sql("learned_ef_search"), tenant_id, generation_id
    )
    return found


async def maintain_recall(
    database: Database, tenant_id: TenantId, generation_id: GenerationId, exact_passages: int
) -> RecallMeasurement | None:
    """Measure the recall of a tenant's searches if it is not known or may have changed.

    It is measured again after the index was built anew, when a fifth of the passages came or went,
    and after a day.

    Args:
        database: as the application role.
        tenant_id: whose passages are searched.
        generation_id: whose index is measured.
        exact_passages: size up to which a tenant is scanned without the index.

    Returns:
        The newest measurement; None for a tenant that is answered by the exact scan.
    """
    async with database.tenant(tenant_id, "recall of the vector index") as connection:
        state: Any = await connection.fetchrow(
            sql("recall_state"), tenant_id, generation_id, index_name(generation_id)
        )
    if not state["indexed"] or state["passages"] <= exact_passages:
        return None
    if not _is_outdated(state):
        return RecallMeasurement(state["ef_search"], state["recall"])
    found = await measure_recall(database, tenant_id, generation_id)
    async with database.tenant(tenant_id, "save recall") as connection:
        await connection.execute(
            sql("save_recall"),
            tenant_id,
            generation_id,
            found.ef_search,
            found.recall,
            state["passages"],
            state["index_oid"],
        )
    return found


async def measure_recall(
    database: Database, tenant_id: TenantId, generation_id: GenerationId
) -> RecallMeasurement:
    """Compare the index with the exact scan on a sample, from the default `ef_search` on.

    Each query runs in a transaction of its own, so that no snapshot is held for long.
    """
    async with database.tenant(tenant_id, "sample vectors", snapshot=True) as connection:
        rows = await connection.fetch(
            sql("sample_vectors", generation_id), tenant_id, 2 * _SAMPLE_QUERIES
        )
    queries = sample_queries([row["embedding"].to_numpy() for row in rows])
    exact = []
    for query in queries:
        async with database.tenant(tenant_id, "exact scan", snapshot=True) as connection:
            exact.append(
                await _nearest(connection, "nearest_exactly", tenant_id, generation_id, query)
            )
    ef_search = EF_SEARCH
    while True:
        shares = []
        for query, expected in zip(queries, exact, strict=True):
            async with database.tenant(tenant_id, "indexed scan", snapshot=True) as connection:
                await connection.fetchrow(
                    sql("tune_vector_index"), str(ef_search), str(LARGEST_EF_SEARCH * NEAREST)
                )
                found = await _nearest(
                    connection, "nearest_by_index", tenant_id, generation_id, query
                )
            if expected:
                shares.append(sum(d <= expected[-1] for d in found) / len(expected))
        measured = RecallMeasurement(ef_search, float(np.mean(shares)) if shares else 1.0)
        if measured.reaches_target or ef_search >= LARGEST_EF_SEARCH:
            return measured
        ef_search = min(2 * ef_search, LARGEST_EF_SEARCH)


def sample_queries(vectors: Sequence[NDArray[np.float32]]) -> list[HalfVector]:
    """Make queries from stored vectors: each one, and halfway between it and the next.

    A question lies near passages, but not on one; the means stand for such queries.

    Args:
        vectors: of length 1.
    """
    queries = [unit_vector(vector) for vector in vectors[::2]]
    for one, other in zip(vectors[::2], vectors[1::2], strict=False):
        mean = np.asarray(one, dtype=np.float32) + np.asarray(other, dtype=np.float32)
        if np.any(mean):
            queries.append(unit_vector(mean))
    return queries


def _is_outdated(state: Any) -> bool:
    if state["ef_search"] is None or state["is_old"]:
        return True
    change = abs(state["passages"] - state["measured_passages"])
    return bool(
        state["measured_index"] != state["index_oid"]
        or change > _GROWTH * state["measured_passages"]
    )


async def _nearest(
    connection: Connection,
    statement: str,
    tenant_id: TenantId,
    generation_id: GenerationId,
    query: HalfVector,
) -> list[float]:
    """Return the distances of the nearest passages, ascending.

    Distances are compared, not passages: of equally near ones any is right.
    """
    rows = await connection.fetch(sql(statement, generation_id), tenant_id, query, NEAREST)
    return [row["distance"] for row in rows]
