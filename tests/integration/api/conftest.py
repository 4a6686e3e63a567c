"""Documents brought into a real database by the store, and the API over it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.store.collection_store import Collections
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import Documents
from livedex.pipeline.store.installation_status import Operations, QueueBacklog
from tests.app_client import client_of
from tests.filling import NoModel


@pytest.fixture
def documents(database: Database) -> Documents:
    return Documents(database)


@pytest.fixture
async def app(database: Database, owner_url: str) -> AsyncIterator[FastAPI]:
    metrics, model = Metrics(), NoModel()
    engine = SearchEngine(database, model, model, metrics=metrics)
    made = create_app(
        ApiServices(
            engine, Documents(database), Operations(database), QueueBacklog(database), metrics, Collections(database), url=owner_url
        )
    )
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client
