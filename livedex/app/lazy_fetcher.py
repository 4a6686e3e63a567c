"""Contents by their URL, for the roles that need them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from livedex.pipeline.events.event import Changed, Event
from livedex.pipeline.ingest.ingester import Accepting
from livedex.pipeline.model import TenantId, Validator
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.stages.remote_content import Fetched, Fetcher
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.version_allocator import Versions

if TYPE_CHECKING:
    from livedex.connectors.webhook.change_lister import Listings
    from livedex.connectors.webhook.source_fetcher import Contents


class LateContents:
    """`livedex.pipeline.stages.remote_content.Fetcher`, made when it is first needed: most commands fetch nothing, and what fetches takes long to import."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _contents(self) -> Contents:
        from livedex.connectors.webhook.source_fetcher import Contents
        from livedex.pipeline.fetch.bounds import Bounds
        from livedex.pipeline.fetch.fetcher import Getter

        s = self._settings
        getter = Getter(Bounds(whole_s=s.fetch.timeout_s))
        return Contents(s.webhooks, s.fetch, getter, max_document_bytes=s.max_document_bytes)

    @asynccontextmanager
    async def fetch(self, tenant_id: TenantId, source: str, url: str, validator: Validator | None = None) -> AsyncIterator[Fetched | None]:
        """See `Fetcher.fetch`."""
        async with self._contents.fetch(tenant_id, source, url, validator) as found:
            yield found

    async def answer(self, tenant_id: TenantId, source: str, url: str) -> Any:
        """See `Fetcher.answer`."""
        return await self._contents.answer(tenant_id, source, url)

    def rights(self, tenant_id: TenantId, source: str) -> str:
        """See `Fetcher.rights`."""
        return self._contents.rights(tenant_id, source)

    def objection(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        """See `Fetcher.objection`."""
        return self._contents.objection(tenant_id, source, url)

    def close(self) -> None:
        """Let go of what was opened."""
        if "_contents" in self.__dict__:
            self._contents.close()


class LateListings:
    """`livedex.pipeline.stages.listing.Lister`, made when it is first needed.

    Args:
        fetcher: asks the APIs of the sources.
        intake: takes what changed.
    """

    def __init__(self, settings: Settings, database: Database, fetcher: Fetcher, intake: Accepting) -> None:
        self._settings, self._database, self._fetcher, self._intake = settings, database, fetcher, intake

    @cached_property
    def _listings(self) -> Listings:
        from livedex.connectors.webhook.change_lister import Listings
        from livedex.pipeline.ingest.request_ingester import Receiver

        return Listings(self._settings.webhooks, self._fetcher, Receiver(Versions(self._database), self._intake, self._fetcher))

    async def follow(self, event: Event[Changed]) -> None:
        """See `Lister.follow`."""
        await self._listings.follow(event)
