"""Subscribers of the test's own, and a courier for one that is told at a receiver on loopback."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest

from livedex.consumers.notify import Endpoint, Subscription, open_delivery_workers
from livedex.consumers.notify.delivery_worker import DeliveryWorker
from livedex.pipeline.fetch.host_allowlist import HostAllowlist
from livedex.pipeline.fetch.ssrf_guard import SsrfGuardBackend
from livedex.pipeline.fetch.urls import parse_url
from livedex.pipeline.model import DEFAULT_TENANT, TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.subscriber_store import SubscriberConfig, SubscriberStore
from tests.support.http.scripted_subscriber import SECRET, SubscriberServer

ALL = ("synced", "deleted", "dead")
KEY = base64.b64decode(SECRET.removeprefix("whsec_"))


def registration(
    name: str = "shop",
    tenant: str = DEFAULT_TENANT,
    *,
    events: Sequence[str] = ALL,
    collections: Sequence[str] = (),
    **more: Any,
) -> SubscriberConfig:
    """What the settings say of a subscriber."""
    return SubscriberConfig(
        TenantId(tenant), name, tuple(events), tuple(collections), more.pop("reads", False), **more
    )


@pytest.fixture
def receiver() -> Iterator[SubscriberServer]:
    with SubscriberServer() as server:
        yield server


@pytest.fixture
def subscribers(database: Database) -> SubscriberStore:
    return SubscriberStore(database)


class NotifyRole:
    """The role `notify` in this process.

    Attributes:
        health: what was told of components, in order.
    """

    def __init__(
        self,
        metrics: Metrics,
        health: list[tuple[str, str | None]],
        couriers: Sequence[DeliveryWorker],
    ) -> None:
        self.metrics, self.health, self.couriers = metrics, health, couriers

    def count(self, outcome: str) -> float:
        """Attempts that ended so."""
        return (
            self.metrics.registry.get_sample_value(
                "livedex_events_total", {"stage": "notify", "outcome": outcome}
            )
            or 0.0
        )


Start = Callable[..., AbstractAsyncContextManager[NotifyRole]]


@pytest.fixture
def start(database: Database, owner_url: str) -> Start:
    """Tells subscribers for as long as the block lasts:

    `start((registration, receiver), …, attempts=…, wait=…)`.
    """

    @asynccontextmanager
    async def started(
        *told: tuple[SubscriberConfig, SubscriberServer | None],
        attempts: int = 10,
        wait: Callable[[int], float] = lambda _: 0.0,
    ) -> AsyncIterator[NotifyRole]:
        metrics, health = Metrics(), list[tuple[str, str | None]]()
        subscriptions = [
            Subscription(each, route_to(receiver) if receiver else None, attempts)
            for each, receiver in told
        ]
        stop = asyncio.Event()
        async with AsyncExitStack() as stack:
            tell = lambda component, reason: health.append((component, reason))  # noqa: E731
            couriers = await stack.enter_async_context(
                open_delivery_workers(subscriptions, database, owner_url, metrics, tell)
            )
            for courier in couriers:
                courier._wait = wait
            running = [asyncio.create_task(courier.run(stop)) for courier in couriers]
            try:
                yield NotifyRole(metrics, health, couriers)
            finally:
                stop.set()
                await asyncio.gather(*running)

    return started


def route_to(receiver: SubscriberServer) -> Endpoint:
    """The way to a receiver."""

    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError(host)

    place = parse_url(f"{receiver.address}/hook")
    return Endpoint(
        place,
        [KEY],
        SsrfGuardBackend(nowhere, HostAllowlist([receiver.host]), 2.0),
        ssl.create_default_context(),
    )


async def pending_notices(owner: asyncpg.Connection) -> int:
    """Notices that are there."""
    return int(await owner.fetchval("select count(*) from notices"))


async def wait_all_notified(owner: asyncpg.Connection, timeout_s: float = 30) -> None:
    """Until everything was told, or is dead."""
    async with asyncio.timeout(timeout_s):
        while await pending_notices(owner):  # another connection's
            await asyncio.sleep(0.01)
