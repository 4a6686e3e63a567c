"""An embedder that counts, and libraries of a module's own documents:

`fill` of the module puts them into a database.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from livedex.pipeline.store.database import Database
from tests.support.builders.search_corpus import SearchIndex
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.postgres.databases import read_only_database


@pytest.fixture
def embedder() -> Iterator[EmbeddingServer]:
    """Counts the texts that are sent to it."""
    with EmbeddingServer() as server:
        yield server


@pytest.fixture
async def library(request: pytest.FixtureRequest, database: Database) -> SearchIndex:
    """The test's own."""
    made: SearchIndex = await request.module.fill(database)
    return made


@pytest.fixture(scope="module")
def read_only_index(
    request: pytest.FixtureRequest, server_url: str
) -> Iterator[tuple[str, SearchIndex]]:
    """A database that several tests read, as the module filled it."""
    with read_only_database(server_url, request.module.fill) as made:
        yield made


@pytest.fixture
async def shared_index(read_only_index: tuple[str, SearchIndex]) -> AsyncIterator[SearchIndex]:
    """The same documents, in the database that several tests read."""
    async with SearchIndex.reopened(*read_only_index) as opened:
        yield opened
