"""The role `notify`: subscribers are told what became of documents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from livedex.pipeline.errors import ConflictError
from livedex.pipeline.http.outbound_client import check_certificates
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.subscriber import (
    SubscriberSettings,
    decode_secret,
    signing_keys,
)
from livedex.pipeline.store.subscriber_store import SubscriberConfig

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.consumers.notify import DeliveryWorker, Endpoint, RegisteredDeliveries
    from livedex.pipeline.fetch.ssrf_guard import SystemResolver
    from livedex.pipeline.store.registered_subscriber_store import RegisteredSubscriber

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
async def open_notification_workers(
    s: AppContext,
) -> AsyncIterator[list[DeliveryWorker | RegisteredDeliveries]]:
    """Return what delivers notifications, to be run while the block lasts: a worker for each
    subscriber of livedex.toml with a URL, and one for those that were created over the API.

    Raises:
        ConfigError: a secret is missing, or none.
        OutageError, RetryableError: the database is away.
    """
    from livedex.consumers.notify import (
        RegisteredDeliveries,
        Subscription,
        open_delivery_workers,
    )
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
            yield [
                *couriers,
                RegisteredDeliveries(
                    s.database,
                    s.metrics,
                    lambda subscriber: _endpoint_of(subscriber, resolver),
                    [each.registration.key for each in subscriptions],
                ),
            ]
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


def _endpoint_of(subscriber: RegisteredSubscriber, resolver: SystemResolver) -> Endpoint:
    """Return the endpoint of a subscriber that was created over the API: a public host."""
    from livedex.consumers.notify import Endpoint
    from livedex.pipeline.fetch.host_allowlist import HostAllowlist
    from livedex.pipeline.fetch.ssrf_guard import SsrfGuardBackend
    from livedex.pipeline.fetch.urls import parse_url
    from livedex.pipeline.http.outbound_client import trusted_certificates

    assert subscriber.url is not None and subscriber.secret is not None
    return Endpoint(
        parse_url(subscriber.url),
        (decode_secret(subscriber.secret),),
        SsrfGuardBackend(resolver, HostAllowlist(), _CONNECT_S),
        trusted_certificates(),
    )


def is_in_settings(settings: Settings, tenant_id: TenantId, name: str) -> bool:
    """Return whether livedex.toml names a subscriber."""
    return any((each.tenant, each.name) == (tenant_id, name) for each in settings.subscriber)


async def delete_subscriber(s: AppContext, tenant_id: TenantId, name: str) -> None:
    """Delete a subscriber that livedex.toml does not name, with its pending notifications.

    Raises:
        NotFoundError: there is none of this name.
        ConflictError: livedex.toml names it.
    """
    from livedex.pipeline.store.registered_subscriber_store import RegisteredSubscriberStore

    if is_in_settings(s.settings, tenant_id, name):
        raise ConflictError(
            f"the subscriber {name} stands in livedex.toml: remove it there and restart the role "
            "notify"
        )
    await RegisteredSubscriberStore(s.database).delete(tenant_id, name)


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
