"""Contents by their URL, for the roles that need them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from livedex.pipeline.events.event import Changed, Event
from livedex.pipeline.ingest.ingester import ChangeSink
from livedex.pipeline.model import CacheValidator, TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.remote_content import ContentFetcher, FetchedContent
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.version_allocator import VersionAllocator

if TYPE_CHECKING:
    from livedex.connectors.webhook.change_lister import SourceChangeLister
    from livedex.connectors.webhook.source_fetcher import SourceFetcher


class LazyFetcher:
    """`livedex.pipeline.stages.remote_content.ContentFetcher`, made when it is first needed: most
    commands fetch nothing, and what fetches takes long to import.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _contents(self) -> SourceFetcher:
        from livedex.connectors.webhook.source_fetcher import SourceFetcher
        from livedex.pipeline.fetch.bounds import FetchLimits
        from livedex.pipeline.fetch.fetcher import HttpFetcher

        s = self._settings
        getter = HttpFetcher(FetchLimits(total_timeout_s=s.fetch.timeout_s))
        return SourceFetcher(s.webhooks, s.fetch, getter, max_document_bytes=s.max_document_bytes)

    @asynccontextmanager
    async def fetch(
        self, tenant_id: TenantId, source: str, url: str, validator: CacheValidator | None = None
    ) -> AsyncIterator[FetchedContent | None]:
        """See `Fetcher.fetch`."""
        async with self._contents.fetch(tenant_id, source, url, validator) as found:
            yield found

    async def fetch_json(self, tenant_id: TenantId, source: str, url: str) -> Any:
        """See `Fetcher.answer`."""
        return await self._contents.fetch_json(tenant_id, source, url)

    def access_fingerprint(self, tenant_id: TenantId, source: str) -> str:
        """See `Fetcher.rights`."""
        return self._contents.access_fingerprint(tenant_id, source)

    def refusal_reason(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        """See `Fetcher.objection`."""
        return self._contents.refusal_reason(tenant_id, source, url)

    def close(self) -> None:
        """Let go of what was opened."""
        if "_contents" in self.__dict__:
            self._contents.close()


class LazyChangeLister:
    """`livedex.pipeline.stages.remote_content.ChangeLister`, made when it is first needed.

    Args:
        fetcher: asks the APIs of the sources.
        intake: takes what changed.
    """

    def __init__(
        self, settings: Settings, database: Database, fetcher: ContentFetcher, intake: ChangeSink
    ) -> None:
        self._settings, self._database, self._fetcher, self._intake = (
            settings,
            database,
            fetcher,
            intake,
        )

    @cached_property
    def _listings(self) -> SourceChangeLister:
        from livedex.connectors.webhook.change_lister import SourceChangeLister
        from livedex.pipeline.ingest.request_ingester import RequestIngester

        return SourceChangeLister(
            self._settings.webhooks,
            self._fetcher,
            RequestIngester(VersionAllocator(self._database), self._intake, self._fetcher),
        )

    async def list_changes(self, event: Event[Changed]) -> None:
        """See `Lister.follow`."""
        await self._listings.list_changes(event)
