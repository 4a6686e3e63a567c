"""Several tenants on one installation, served as a deployment serves them, and pried into."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from livedex.app.webhook_routes import routers
from livedex.connectors.webhook import RequestIngester
from livedex.pipeline.access.api_key_cache import open_api_key_cache
from livedex.pipeline.access.authenticator import CredentialAuthenticator
from livedex.pipeline.access.key_format import generate_key
from livedex.pipeline.api.app import READ_ROUTERS, ApiServices, create_app
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.documents.version_allocator import VersionAllocator
from livedex.pipeline.store.installation_status import InstallationStatus, QueueBacklog
from tests.support.builders.search_corpus import FakeVectorSpace
from tests.support.http.app_client import asgi_client
from tests.support.models.tenant_isolation import TenantProbe
from tests.support.pipelines.inline_pipeline import InlinePipeline

DIMENSIONS = 16


@asynccontextmanager
async def tenant_probes(
    database: Database, url: str, tenants: int, seed: int
) -> AsyncIterator[list[TenantProbe]]:
    """Tenants that have nothing yet, each with a key that reads and writes everything, and one
    that reads on somebody's behalf.
    """
    generation = await PgVectorStore(database).ensure_generation("counting", DIMENSIONS)
    metrics, space = Metrics(), FakeVectorSpace(generation, DIMENSIONS)
    intake = InlinePipeline(database, generation, DIMENSIONS)
    async with AsyncExitStack() as stack:
        ring = await stack.enter_async_context(open_api_key_cache(ApiKeyStore(database), url))
        services = ApiServices(
            SearchEngine(database, space, space, metrics=metrics),
            DocumentQueries(database),
            InstallationStatus(database),
            QueueBacklog(database),
            metrics,
            CollectionStore(database),
            intake=intake,
            tenancy=CredentialAuthenticator(ring),
        )
        app = create_app(
            services,
            [
                *READ_ROUTERS,
                *routers(
                    RequestIngester(VersionAllocator(database), intake), max_document_bytes=100_000
                ),
            ],
        )
        await stack.enter_async_context(app.router.lifespan_context(app))
        made = []
        for number in range(tenants):
            tenant_id, asking = TenantId(f"tenant {number}"), []
            for scopes in (["search", "documents:write", "documents:all"], ["search", "act_as"]):
                key = generate_key()
                await ApiKeyStore(database).create(
                    tenant_id, key.key_id, "test", key.sha256, scopes, None
                )
                asking.append(
                    await stack.enter_async_context(
                        asgi_client(app, headers={"X-API-Key": key.key})
                    )
                )
            made.append(TenantProbe(number, *asking, random.Random(seed * 1000 + number)))
        yield made
