"""The HNSW index over a generation's vectors: built once it pays, without holding up who writes."""

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
    """The index of a generation; without one, a name that no index has."""
    return (
        "vectors_none_by_nearness"
        if generation_id is None
        else f"vectors_{int(generation_id)}_by_nearness"
    )


async def vector_index_is_valid(
    connection: asyncpg.Connection[asyncpg.Record], generation_id: GenerationId
) -> bool:
    """Whether the index stands and is complete."""
    return bool(await connection.fetchval(sql("vector_index_is_valid"), index_name(generation_id)))


async def maintain_vector_index(
    owner_url: str, generation_id: GenerationId, threshold_rows: int
) -> bool:
    """Build the index when the generation holds enough vectors; a build that was broken off is done
    again.

    Two that run at the same moment are safe: the second leaves it to the first.

    Args:
        owner_url: of the database, for a role that owns the table.
        threshold_rows: vectors from which on an index pays, >= 1.

    Returns:
        Whether it was built.

    Raises:
        OutageError, RetryableError: see `livedex.pipeline.store.database_errors.translate_errors`.
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
            return await _build(connection, generation_id)  # the lock ends with the connection
        finally:
            await connection.close()


async def enlarge_vector_index(owner_url: str, generation_id: GenerationId) -> bool:
    """Build the index again with more links, beside the one that answers, and put it in its place.

    Args:
        owner_url: of the database, for a role that owns the table.

    Returns:
        Whether it was built; False if it is as large as it gets, or another process builds it.

    Raises:
        OutageError, RetryableError: see `livedex.pipeline.store.database_errors.translate_errors`.
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
    await connection.execute(sql("drop_vector_index", generation_id))  # what a broken build left
    log.info("building the vector index of generation %d", generation_id)
    await connection.execute(sql("create_vector_index", generation_id))
    return True
