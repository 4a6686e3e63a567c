"""The API with keys over a real database, as a process of a deployment serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from pipeline.access.ring import open_ring
from pipeline.access.tenancy import KeyTenancy
from pipeline.access.tokens import TokenTenancy
from pipeline.api.app import ApiServices, create_app
from pipeline.metrics import Metrics
from pipeline.model import TenantId
from pipeline.search.engine import SearchEngine
from pipeline.store.collections import Collections
from pipeline.store.database import Database
from pipeline.store.documents import Documents
from pipeline.store.keys import ApiKeys
from pipeline.store.operations import Operations, QueueBacklog
from tests.filling import NoModel


@asynccontextmanager
async def served(
    database: Database,
    url: str,
    without_key: TenantId | None = None,
    *,
    engine: Any = None,
    tokens: TokenTenancy | None = None,
    **more: Any,
) -> AsyncIterator[FastAPI]:
    """The API as a process of a deployment serves it, with keys."""
    metrics, model = Metrics(), NoModel()
    async with open_ring(ApiKeys(database), url) as ring:
        services = ApiServices(
            engine or SearchEngine(database, model, model, metrics=metrics), Documents(database), Operations(database), QueueBacklog(database), metrics,
            Collections(database), tenancy=KeyTenancy(ring, without_key, tokens=tokens), **more,
        )  # fmt: skip
        made = create_app(services)
        async with made.router.lifespan_context(made):
            yield made
