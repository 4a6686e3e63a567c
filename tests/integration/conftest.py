"""An embedder that counts, and libraries of a module's own documents: `fill` of the module puts them into a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from livedex.pipeline.store.database import Database
from tests.corpus import Library
from tests.databases import filled_database
from tests.scripted_embedder import ScriptedEmbedder


@pytest.fixture
def embedder() -> Iterator[ScriptedEmbedder]:
    """Counts the texts that are sent to it."""
    with ScriptedEmbedder() as server:
        yield server


@pytest.fixture
async def library(request: pytest.FixtureRequest, database: Database) -> Library:
    """The test's own."""
    made: Library = await request.module.fill(database)
    return made


@pytest.fixture(scope="module")
def shelved(request: pytest.FixtureRequest, server_url: str) -> Iterator[tuple[str, Library]]:
    """A database that several tests read, as the module filled it."""
    with filled_database(server_url, request.module.fill) as made:
        yield made


@pytest.fixture
async def filled(shelved: tuple[str, Library]) -> AsyncIterator[Library]:
    """The same documents, in the database that several tests read."""
    async with Library.reopened(*shelved) as opened:
        yield opened
