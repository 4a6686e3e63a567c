"""Every statement of the store is one that PostgreSQL takes, on the schema that the migrations
make, and says what its parameters are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import asyncpg
import pytest
from pgvector.asyncpg import register_vector

from livedex.pipeline.model import GenerationId
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.postgres.statements import all_statements, sql
from tests.support.postgres.databases import read_only_database

_OF_THE_OWNER = ("drop index", "create index")  # never prepared; run in test_vector_index.py


def _split(name: str) -> tuple[str, str]:
    """The comments of a statement, and the rest."""
    lines = all_statements()[name].splitlines()
    return "\n".join(line for line in lines if line.startswith("--")), "\n".join(
        line for line in lines if not line.startswith("--")
    ).strip()


PREPARED = sorted(
    name for name in all_statements() if not _split(name)[1].startswith(_OF_THE_OWNER)
)


@pytest.fixture(scope="module")
def schema(server_url: str) -> Iterator[tuple[str, GenerationId]]:
    """The URL of a database with a generation, and which; nothing here changes it."""
    with read_only_database(
        server_url, lambda database: PgVectorStore(database).ensure_generation("test", 8)
    ) as made:
        yield made


@pytest.mark.parametrize("name", PREPARED)
async def test_every_statement_can_be_prepared_by_the_application(
    schema: tuple[str, GenerationId], name: str
) -> None:
    url, generation = schema
    owner = await asyncpg.connect(url)
    try:
        await register_vector(owner)
        await owner.execute("set role livedex_app")
        await owner.prepare(sql(name, generation))
    finally:
        await owner.close()


@pytest.mark.parametrize("name", sorted(all_statements()))
def test_every_parameter_is_documented_or_said_to_be_as_above(name: str) -> None:
    comments, body = _split(name)
    assert "as above" in comments.lower() or set(re.findall(r"\$\d+", body)) <= set(
        re.findall(r"\$\d+", comments)
    )


def test_only_building_and_dropping_the_vector_index_is_not_prepared() -> None:
    assert set(all_statements()) - set(PREPARED) == {
        "create_vector_index",
        "drop_vector_index",
        "create_large_vector_index",
        "drop_next_vector_index",
        "replace_vector_index",
    }
