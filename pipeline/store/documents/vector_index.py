"""The HNSW index over a generation's vectors, built concurrently once there are enough vectors."""

from __future__ import annotations

import logging

import asyncpg

from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.database_errors import translate_errors
from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.schema.version_checks import set_search_path

log = logging.getLogger(__name__)

_LOCK_KEY = 7_205_759_403_792_795
MAX_INDEXED_DIMENSIONS = 4000  # of HNSW over halfvec; Source: pgvector's README, "HNSW"


def index_name(generation_id: GenerationId | None) -> str:
    """Return the name of a generation's index; for None, a name that no index has."""
    return (
        "vectors_none_by_nearness"
        if generation_id is None
        else f"vectors_{int(generation_id)}_by_nearness"
    )


async def vector_index_is_valid(
    connection: asyncpg.Connection[asyncpg.Record], generation_id: GenerationId
) -> bool:
    """Return whether the index exists and is valid."""
    return bool(await connection.fetchval(sql("vector_index_is_valid"), index_name(generation_id)))


async def maintain_vector_index(
    owner_url: str, generation_id: GenerationId, threshold_rows: int
) -> bool:
    """Build the index if the generation has enough vectors; repeat an interrupted build.

    Concurrent calls are safe: only one builds.

    Args:
        owner_url: of the database, for a role that owns the table.
        generation_id: of the vectors.
        threshold_rows: minimum number of vectors, >= 1.

    Returns:
        Whether the index was built.

    Raises:
        OutageError: see `livedex.pipeline.store.database_errors.translate_errors`.
        RetryableError: a retry can succeed.
    """
    with translate_errors(f"index the vectors of generation {generation_id}"):
        connection = await connect(owner_url, application_name="livedex")
        try:
            await set_search_path(connection)
            if await vector_index_is_valid(
                connection, generation_id
            ) or not await _reaches_threshold(connection, generation_id, threshold_rows):
                return False
            if not await connection.fetchval("select pg_try_advisory_lock($1::bigint)", _LOCK_KEY):
                return False
            return await _build(connection, generation_id)  # closing the connection frees the lock
        finally:
            await connection.close()


async def enlarge_vector_index(owner_url: str, generation_id: GenerationId) -> bool:
    """Build a new index with more links while the old one is in use, then replace the old one.

    Args:
        owner_url: of the database, for a role that owns the table.
        generation_id: of the vectors.

    Returns:
        Whether the index was built; False: it has the maximum size, or another process builds it.

    Raises:
        OutageError: see `livedex.pipeline.store.database_errors.translate_errors`.
        RetryableError: a retry can succeed.
    """
    name = index_name(generation_id)
    with translate_errors(f"enlarge the vector index of generation {generation_id}"):
        connection = await connect(owner_url, application_name="livedex")
        try:
            await set_search_path(connection)
            if not await connection.fetchval("select pg_try_advisory_lock($1::bigint)", _LOCK_KEY):
                return False
            if await connection.fetchval(sql("vector_index_is_large"), name):
                return False
            log.info("enlarging the vector index of generation %d", generation_id)
            await connection.execute(sql("drop_next_vector_index", generation_id))
            await connection.execute(sql("create_large_vector_index", generation_id))
            async with connection.transaction():
                await connection.execute(sql("replace_vector_index", generation_id))
                await connection.execute(sql("rename_next_vector_index", generation_id))
            return True
        finally:
            await connection.close()


async def _reaches_threshold(
    connection: asyncpg.Connection[asyncpg.Record], generation_id: GenerationId, rows: int
) -> bool:
    return bool(await connection.fetchval(sql("vectors_reach"), generation_id, rows))


async def _build(
    connection: asyncpg.Connection[asyncpg.Record], generation_id: GenerationId
) -> bool:
    if await vector_index_is_valid(connection, generation_id):
        return False
    # remove the invalid index of an interrupted build
    await connection.execute(sql("drop_vector_index", generation_id))
    log.info("building the vector index of generation %d", generation_id)
    await connection.execute(sql("create_vector_index", generation_id))
    return True
