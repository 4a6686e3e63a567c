"""Changes that a sender did not name, looked up by its API: each becomes an event of its own, as
if it had been named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from livedex.connectors.webhook.presets import PRESETS
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import Changed, Event
from livedex.pipeline.ingest.request_ingester import RequestIngester
from livedex.pipeline.settings.webhook_source import WebhookSource
from livedex.pipeline.stages.remote_content import ContentFetcher

DELIVERY_KEY = "delivery"
"""In the metadata of what has to be looked up: the id of the delivery that told of it, which what
is found has as well.
"""

_TOGETHER = 500


class SourceChangeLister:
    """`livedex.pipeline.stages.remote_content.ChangeLister` for the configured sources.

    Args:
        fetcher: asks their APIs.
        receiver: accepts what changed.
    """

    def __init__(
        self, sources: Sequence[WebhookSource], fetcher: ContentFetcher, receiver: RequestIngester
    ) -> None:
        self._sources = {(source.tenant, source.name): source for source in sources}
        self._fetcher, self._receiver = fetcher, receiver

    async def list_changes(self, event: Event[Changed]) -> None:
        """See `Lister.follow`.

        Raises:
            RejectedError: no source is called so any more.
        """
        tenant_id, name = event.tenant_id, event.data.source
        source = self._sources.get((tenant_id, name))
        look_up = (
            PRESETS[source.preset].listed
            if source is not None and source.preset is not None
            else None
        )
        if source is None or look_up is None:
            raise RejectedError(
                "livedex.toml has no source of a repository that is called so any more",
                reason="not_listed",
            )

        async def ask(url: str) -> Any:
            return await self._fetcher.fetch_json(tenant_id, name, url)

        try:
            found = await look_up(source, orjson.loads(event.data.content_bytes()), ask)
        except ValueError as exc:
            raise RejectedError(
                "what has to be looked up is not said", reason="invalid_event"
            ) from exc
        delivery = event.data.metadata.get(DELIVERY_KEY)
        incoming = [
            replace(item, acl=source.acl, delivery_id=delivery or item.delivery_id)
            for item in found
        ]
        for begin in range(0, len(incoming), _TOGETHER):
            await self._receiver.accept(
                tenant_id, f"hooks/{name}", incoming[begin : begin + _TOGETHER], source=name
            )
