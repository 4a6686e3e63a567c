"""Documents brought into a real database by the store, and the API over it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.ask.ask_engine import AskEngine
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.installation_status import InstallationStatus, QueueBacklog
from tests.support.builders.document_states import UnavailableEmbedder
from tests.support.http.app_client import asgi_client


@pytest.fixture
def documents(database: Database) -> DocumentQueries:
    return DocumentQueries(database)


@pytest.fixture
async def app(database: Database, owner_url: str) -> AsyncIterator[FastAPI]:
    metrics, model = Metrics(), UnavailableEmbedder()
    engine = SearchEngine(database, model, model, metrics=metrics)
    made = create_app(
        ApiServices(
            engine,
            DocumentQueries(database),
            InstallationStatus(database),
            QueueBacklog(database),
            metrics,
            CollectionStore(database),
            url=owner_url,
            ask=AskEngine(engine, database),
        )
    )
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    async with asgi_client(app) as client:
        yield client
