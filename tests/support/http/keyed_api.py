"""The API with keys over a real database, as a process of a deployment serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from livedex.pipeline.access.api_key_cache import open_api_key_cache
from livedex.pipeline.access.authenticator import CredentialAuthenticator
from livedex.pipeline.access.jwt_verifier import JwtVerifier
from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.ask.ask_engine import AskEngine
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.search.engine import SearchEngine
from livedex.pipeline.store.api_key_store import ApiKeyStore
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.installation_status import InstallationStatus, QueueBacklog
from tests.support.builders.document_states import UnavailableEmbedder


@asynccontextmanager
async def authenticated_api(
    database: Database,
    url: str,
    without_key: TenantId | None = None,
    *,
    engine: Any = None,
    tokens: JwtVerifier | None = None,
    **more: Any,
) -> AsyncIterator[FastAPI]:
    """The API as a process of a deployment serves it, with keys."""
    metrics, model = Metrics(), UnavailableEmbedder()
    async with open_api_key_cache(ApiKeyStore(database), url) as ring:
        searches = engine or SearchEngine(database, model, model, metrics=metrics)
        services = ApiServices(
            searches,
            DocumentQueries(database),
            InstallationStatus(database),
            QueueBacklog(database),
            metrics,
            CollectionStore(database),
            tenancy=CredentialAuthenticator(ring, without_key, tokens=tokens),
            ask=AskEngine(searches, database),
            **more,
        )
        made = create_app(services)
        async with made.router.lifespan_context(made):
            yield made
