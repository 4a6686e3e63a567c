"""The role `webhook`: what is sent over HTTP becomes changes."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fastapi import APIRouter

from livedex.app.webhook_routes import routers
from livedex.app.wiring import AppContext
from livedex.connectors.webhook import RequestIngester, load_hooks
from livedex.connectors.webhook.api_credentials import check_tokens
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.http.outbound_client import check_certificates
from livedex.pipeline.ingest.ingester import ChangeSink
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.documents.version_allocator import VersionAllocator

log = logging.getLogger(__name__)


def check_webhook_sources(settings: Settings) -> None:
    """Find out before anything is started whether every source that sends can be known and
    understood.

    Raises:
        ConfigError: one has no secret, or a map without sense, or its contents would have to be
        fetched and nothing is.
    """
    _check_fetching(settings)
    load_hooks(settings.webhooks)


def check_fetch_credentials(settings: Settings) -> None:
    """Find out before anything is started whether every token is there that contents are fetched
    with.

    Raises:
        ConfigError: one is not, or nothing is fetched though a source needs it.
    """
    _check_fetching(settings)
    if settings.fetch.enabled:
        check_certificates()
        check_tokens(settings.webhooks)


def _check_fetching(settings: Settings) -> None:
    for source in settings.webhooks:
        if source.requires_fetch and not settings.fetch.enabled:
            what = (
                f"the preset {source.preset}"
                if source.preset
                else "a map with url and without text"
            )
            raise ConfigError(
                f"source {source.name}: with {what} contents have to be fetched, and "
                "LIVEDEX_FETCH_ENABLED is false: let them be, or take the source out"
            )


def webhook_routers(s: AppContext, intake: ChangeSink) -> Sequence[APIRouter]:
    """The routes of the receiver, as the settings have it.

    Raises:
        ConfigError: a source has no secret, or a mapping without sense.
    """
    hooks = load_hooks(s.settings.webhooks)
    for caution in (each for hook in hooks.values() for each in hook.startup_warnings):
        log.warning("%s", caution)
    receiver = RequestIngester(VersionAllocator(s.database), intake, s.fetcher)
    return routers(receiver, hooks, max_document_bytes=s.settings.max_document_bytes)
