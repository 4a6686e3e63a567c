"""Contents by their URL, for the roles that need them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from pipeline.model import TenantId, Validator
from pipeline.settings import Settings
from pipeline.stages.fetching import Fetched

if TYPE_CHECKING:
    from connectors.webhook.contents import Contents


class LateContents:
    """`pipeline.stages.fetching.Fetcher`, made when it is first needed: most commands fetch nothing, and what fetches takes long to import."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _contents(self) -> Contents:
        from connectors.webhook.contents import Contents
        from pipeline.fetching.bounds import Bounds
        from pipeline.fetching.getting import Getter

        s = self._settings
        getter = Getter(Bounds(whole_s=s.fetch.timeout_s))
        return Contents(s.webhooks, s.fetch, getter, max_document_bytes=s.max_document_bytes)

    @asynccontextmanager
    async def fetch(self, tenant_id: TenantId, source: str, url: str, validator: Validator | None = None) -> AsyncIterator[Fetched | None]:
        """See `Fetcher.fetch`."""
        async with self._contents.fetch(tenant_id, source, url, validator) as found:
            yield found

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
