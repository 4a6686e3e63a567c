"""What the contract suites run on."""

from __future__ import annotations

import pytest

from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from tests.shelf import DIMENSIONS, Shelf


@pytest.fixture(params=["pgvector"])
async def shelf(request: pytest.FixtureRequest, database: Database) -> Shelf:
    """Every store there is, empty."""
    store = {"pgvector": PgVectorStore}[request.param](database)
    return Shelf(store, database, await store.ensure_schema("counting", DIMENSIONS))
