"""Documents brought into a real database by the store, and the API over it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from pipeline.api.app import ApiServices, create_app
from pipeline.metrics import Metrics
from pipeline.search.engine import SearchEngine
from pipeline.store.collections import Collections
from pipeline.store.database import Database
from pipeline.store.documents import Documents
from pipeline.store.operations import Operations, QueueBacklog
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
