"""Several tenants on one installation, served as a deployment serves them, and pried into."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from connectors.webhook import Receiver, routers
from pipeline.access.keys import make_key
from pipeline.access.ring import open_ring
from pipeline.access.tenancy import KeyTenancy
from pipeline.api.app import READING, ApiServices, create_app
from pipeline.metrics import Metrics
from pipeline.model import TenantId
from pipeline.search.engine import SearchEngine
from pipeline.store.collections import Collections
from pipeline.store.database import Database
from pipeline.store.documents import Documents
from pipeline.store.keys import ApiKeys
from pipeline.store.operations import Operations, QueueBacklog
from pipeline.store.pgvector import PgVectorStore
from pipeline.store.versions import Versions
from tests.app_client import client_of
from tests.corpus import Space
from tests.inline import InlinePipeline
from tests.prying import Prier

DIMENSIONS = 16


@asynccontextmanager
async def priers(database: Database, url: str, tenants: int, seed: int) -> AsyncIterator[list[Prier]]:
    """Tenants that have nothing yet, each with a key that reads and writes everything, and one that reads on somebody's behalf."""
    generation = await PgVectorStore(database).ensure_schema("counting", DIMENSIONS)
    metrics, space = Metrics(), Space(generation, DIMENSIONS)
    intake = InlinePipeline(database, generation, DIMENSIONS)
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_ring(ApiKeys(database), url))
        services = ApiServices(
            SearchEngine(database, space, space, metrics=metrics), Documents(database), Operations(database), QueueBacklog(database), metrics,
            Collections(database), intake=intake, tenancy=KeyTenancy(ring),
        )  # fmt: skip
        app = create_app(services, [*READING, *routers(Receiver(Versions(database), intake), max_document_bytes=100_000)])
        await stack.enter_async_context(app.router.lifespan_context(app))
        made = []
        for number in range(tenants):
            tenant_id, asking = TenantId(f"tenant {number}"), []
            for scopes in (["search", "documents:write", "documents:all"], ["search", "act_as"]):
                key = make_key()
                await ApiKeys(database).create(tenant_id, key.key_id, "test", key.sha256, scopes, None)
                asking.append(await stack.enter_async_context(client_of(app, headers={"X-API-Key": key.key})))
            made.append(Prier(number, *asking, random.Random(seed * 1000 + number)))
        yield made
