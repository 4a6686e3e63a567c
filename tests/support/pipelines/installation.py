"""A whole installation in this process, with the receiver and the read API, on either broker; what
it sends to the embedder is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx

from livedex.app.administration import TenantAdministration
from livedex.app.broker import open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.webhook_role import webhook_routers
from livedex.app.wiring import AppContext, open_app_context
from livedex.pipeline.api.app import READ_ROUTERS, ApiServices, create_app
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import ChangeSink
from livedex.pipeline.settings.fetch import FetchSettings
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.remote_content import ContentFetcher
from livedex.pipeline.store.collection_store import CollectionStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from tests.support.http.app_client import asgi_client
from tests.support.http.scripted_embedder import EmbeddingServer

STAGES: tuple[StageName, ...] = ("chunk", "embed", "sync")
TIMEOUT_S = 90.0


class InProcessInstallation:
    """An installation.

    Attributes:
        s: what it works with.
        http: a client of its API.
        services: what its API stands on.
    """

    def __init__(
        self,
        s: AppContext,
        http: httpx.AsyncClient,
        embedder: EmbeddingServer,
        services: ApiServices,
    ) -> None:
        self.s, self.http, self.embedder, self.services = s, http, embedder, services

    @property
    def intake(self) -> ChangeSink:
        """What the receiver hands its changes to."""
        return self.services.intake

    async def put(self, document_id: str, text: str, **more: Any) -> dict[str, Any]:
        """Send a document, and be sure that it is accepted."""
        answer = await self.http.put(f"/v1/documents/{document_id}", json={"text": text, **more})
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def delete(self, document_id: str, **more: Any) -> dict[str, Any]:
        """Delete a document, and be sure that this is accepted."""
        answer = await self.http.delete(f"/v1/documents/{document_id}", params=more)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    async def state(self, token: str, wait_s: float = 0) -> str:
        """What became of a change."""
        return str(
            (await self.http.get(f"/v1/sync/{token}", params={"wait_s": wait_s})).json()["state"]
        )

    async def ended(self) -> None:
        """Wait until all that was accepted has ended."""
        found = await wait_for_catch_up(
            self.s.operations, self.s.backlog, deadline=time.monotonic() + TIMEOUT_S, scan=False
        )
        assert found.all, found.left

    async def text(self, document_id: str) -> str | None:
        """The visible chunks of a document, one below the other; None when there is no such
        document.
        """
        answer = await self.http.get(f"/v1/documents/{document_id}/chunks")
        return (
            None
            if answer.status_code == 404
            else "\n".join(chunk["content"] for chunk in answer.json()["chunks"])
        )

    async def version(self, document_id: str) -> int | None:
        """The visible version of a document; None when there is none."""
        answer = await self.http.get(f"/v1/documents/{document_id}")
        return None if answer.status_code == 404 else answer.json()["version"]


def settings_for(
    owner_url: str,
    servers: str | None,
    embedder: EmbeddingServer,
    kafka: KafkaSettings | None = None,
    **more: Any,
) -> Settings:
    """Settings of an installation; on PostgreSQL's queue where `servers` is None."""
    given: dict[str, Any] = {
        "database_url": owner_url,
        "embedder": "openai:counting",
        "embedder_url": embedder.url,
        "embedder_api_key": "none",
        "dimensions": 32,
        "fetch": FetchSettings(retry_s=0),
        **({"broker_url": f"kafka://{servers}", "kafka": kafka} if servers else {}),
        **more,
    }
    return Settings(**given)


@asynccontextmanager
async def open_installation(
    settings: Settings,
    folder: Path,
    embedder: EmbeddingServer,
    *,
    stages: Sequence[StageName] = STAGES,
    intake_of: Callable[[ChangeSink], ChangeSink] = lambda intake: intake,
    fetcher: ContentFetcher | None = None,
) -> AsyncIterator[InProcessInstallation]:
    """An installation for as long as the block lasts.

    Args:
        stages: that run; those left out leave their events where they are.
        intake_of: what to hand the receiver instead of the intake.
        fetcher: gets contents by their URL; default: by the settings.
    """
    async with AsyncExitStack() as stack:
        s = await stack.enter_async_context(open_app_context(settings, folder, connections=8))
        s = s if fetcher is None else replace(s, fetcher=fetcher)
        running = await stack.enter_async_context(open_broker(s, stages))
        intake = intake_of(running.intake)
        administration = TenantAdministration(s)
        administration.connect(running.broker)
        services = ApiServices(
            s.engine,
            DocumentQueries(s.database),
            s.operations,
            s.backlog,
            s.metrics,
            CollectionStore(s.database),
            intake,
            url=settings.database_url.get_secret_value() if settings.database_url else None,
            administration=administration,
        )
        app = create_app(services, [*READ_ROUTERS, *webhook_routers(s, intake)])
        await stack.enter_async_context(app.router.lifespan_context(app))
        http = await stack.enter_async_context(asgi_client(app, timeout=60))
        yield InProcessInstallation(s, http, embedder, services)


async def gather_list(*calls: Any) -> list[Any]:
    """All of them at the same time."""
    return list(await asyncio.gather(*calls))
