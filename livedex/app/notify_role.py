"""The role `notify`: subscribers are told what became of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from livedex.pipeline.http.outbound_client import check_certificates
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.subscriber import SubscriberSettings, signing_keys
from livedex.pipeline.store.subscriber_store import SubscriberConfig

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.consumers.notify import DeliveryWorker, Endpoint
    from livedex.pipeline.fetch.ssrf_guard import SystemResolver

_CONNECT_S = 5.0


def check_subscribers(settings: Settings) -> None:
    """Find out before anything is started whether everything that is sent can be signed.

    Raises:
        ConfigError: a secret is missing, or none.
    """
    for subscriber in settings.subscriber:
        signing_keys(subscriber)
    if any(subscriber.url is not None for subscriber in settings.subscriber):
        check_certificates()


@asynccontextmanager
async def open_notification_workers(s: AppContext) -> AsyncIterator[list[DeliveryWorker]]:
    """A courier for each subscriber that is told at a URL, to be run while the block lasts.

    Raises:
        ConfigError: a secret is missing, or none.
        OutageError, RetryableError: the database is away.
    """
    from livedex.consumers.notify import Subscription, open_delivery_workers
    from livedex.pipeline.fetch.ssrf_guard import SystemResolver

    resolver = SystemResolver()
    try:
        routes = _routes(s.settings.subscriber, resolver)
        subscriptions = [
            Subscription(registration_of(each), routes.get(each.name), each.attempts)
            for each in s.settings.subscriber
        ]
        async with open_delivery_workers(
            subscriptions, s.database, s.url, s.metrics, s.tell
        ) as couriers:
            yield couriers
    finally:
        resolver.close()


def _routes(
    subscribers: Sequence[SubscriberSettings], resolver: SystemResolver
) -> dict[str, Endpoint]:
    """Of those that are told at a URL, by their names."""
    from livedex.consumers.notify import Endpoint
    from livedex.pipeline.fetch.ssrf_guard import SsrfGuardBackend
    from livedex.pipeline.http.outbound_client import trusted_certificates

    told = [subscriber for subscriber in subscribers if subscriber.url is not None]
    if not told:
        return {}
    trust = trusted_certificates()
    return {
        each.name: Endpoint(
            each.place,
            signing_keys(each),
            SsrfGuardBackend(resolver, each.hosts, _CONNECT_S),
            trust,
        )
        for each in told
    }


def registration_of(subscriber: SubscriberSettings) -> SubscriberConfig:
    """A subscriber as the stages know it."""
    return SubscriberConfig(
        TenantId(subscriber.tenant),
        subscriber.name,
        subscriber.events,
        subscriber.collection,
        subscriber.url is None,
        subscriber.keep_days,
    )
