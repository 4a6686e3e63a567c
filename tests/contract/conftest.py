"""What the contract suites run on."""

from __future__ import annotations

import pytest

from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from tests.support.builders.filled_store import DIMENSIONS, StoreHarness


@pytest.fixture(params=["pgvector"])
async def shelf(request: pytest.FixtureRequest, database: Database) -> StoreHarness:
    """Every store there is, empty."""
    store = {"pgvector": PgVectorStore}[request.param](database)
    return StoreHarness(store, database, await store.ensure_generation("counting", DIMENSIONS))
