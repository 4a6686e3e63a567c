"""Several tenants on one installation, served as a deployment serves them, and pried into."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from livedex.app.webhook_routes import routers
from livedex.connectors.webhook import Receiver
from livedex.pipeline.access.api_key_cache import open_ring
from livedex.pipeline.access.authenticator import KeyTenancy
from livedex.pipeline.access.key_format import make_key
from livedex.pipeline.api.app import READING, ApiServices, create_app
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.store.api_key_store import ApiKeys
from livedex.pipeline.store.collection_store import Collections
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import Documents
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.documents.version_allocator import Versions
from livedex.pipeline.store.installation_status import Operations, QueueBacklog
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
