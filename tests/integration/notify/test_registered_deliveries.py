"""Subscribers that were created over the API are notified until they are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from livedex.consumers.notify import RegisteredDeliveries, registered_deliveries
from livedex.pipeline.errors import ConflictError, RejectedError
from livedex.pipeline.model import DEFAULT_TENANT, TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.store import registered_subscriber_store
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.registered_subscriber_store import (
    RegisteredSubscriber,
    RegisteredSubscriberStore,
)
from livedex.pipeline.store.subscriber_store import SubscriberStore
from tests.integration.notify.conftest import registration, route_to, wait_all_notified
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.scripted_subscriber import SECRET, SubscriberServer


@pytest.fixture(autouse=True)
def quick_scans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registered_deliveries, "_SCAN_EVERY_S", 0.05)


def created(
    receiver: SubscriberServer, name: str = "shop", tenant: str = DEFAULT_TENANT
) -> RegisteredSubscriber:
    return RegisteredSubscriber(registration(name, tenant), f"{receiver.address}/hook", SECRET)


@asynccontextmanager
async def delivering(
    database: Database, receiver: SubscriberServer, skipped: tuple[tuple[TenantId, str], ...] = ()
) -> AsyncIterator[RegisteredDeliveries]:
    """The deliveries of a role `notify`, all to one receiver."""
    stop = asyncio.Event()
    deliveries = RegisteredDeliveries(database, Metrics(), lambda _: route_to(receiver), skipped)
    task = asyncio.create_task(deliveries.run(stop))
    try:
        yield deliveries
    finally:
        stop.set()
        await task


async def test_a_subscriber_is_notified_from_its_creation_to_its_deletion(
    database: Database, owner: asyncpg.Connection, receiver: SubscriberServer
) -> None:
    documents, store = DocumentBuilder(database), RegisteredSubscriberStore(database)
    await documents.sync("before", 1, "text")
    async with delivering(database, receiver):
        await store.create(created(receiver))
        await documents.sync("a", 1, "text")
        await wait_all_notified(owner)
        # an older release starts, which knows only the subscribers of its settings
        await owner.execute("update subscribers set configured = false")
        while not await owner.fetchval("select configured from subscribers"):
            await asyncio.sleep(0.02)
        await documents.sync("b", 1, "text")
        await wait_all_notified(owner)
        await store.delete(DEFAULT_TENANT, "shop")
        await documents.sync("c", 1, "text")
        await store.create(created(receiver))
        await documents.sync("d", 1, "text")
        await wait_all_notified(owner)
    assert [each.said[1] for each in receiver.deliveries] == ["a", "b", "d"]


async def test_a_deleted_subscriber_or_tenant_stays_deleted(
    database: Database, owner: asyncpg.Connection, receiver: SubscriberServer
) -> None:
    store = RegisteredSubscriberStore(database)
    await store.create(created(receiver))
    async with delivering(database, receiver) as deliveries:
        while not deliveries._running:
            await asyncio.sleep(0.02)
        await store.delete(DEFAULT_TENANT, "shop")
        while deliveries._running:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.2)
    assert await owner.fetchval("select count(*) from subscribers") == 0


async def test_tenants_use_the_same_name_and_those_of_the_settings_win(
    database: Database, owner: asyncpg.Connection, receiver: SubscriberServer
) -> None:
    store, acme = RegisteredSubscriberStore(database), TenantId("acme")
    await store.create(created(receiver))
    await store.create(created(receiver, tenant="acme"))
    assert [each.key for each in await store.all()] == [(acme, "shop"), (DEFAULT_TENANT, "shop")]
    with pytest.raises(ConflictError, match="--tenant"):
        await SubscriberStore(database).find("shop")
    assert (await SubscriberStore(database).find("shop", "acme")).tenant_id == acme
    async with delivering(database, receiver, skipped=((DEFAULT_TENANT, "shop"),)) as deliveries:
        while not deliveries._running:
            await asyncio.sleep(0.02)
        assert list(deliveries._running) == [(acme, "shop")]


async def test_a_tenant_creates_a_bounded_number_at_once(
    database: Database, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registered_subscriber_store, "MAX_REGISTERED", 2)
    store = RegisteredSubscriberStore(database)
    outcomes = await asyncio.gather(
        *(store.create(created(receiver, "shop")) for _ in range(5)), return_exceptions=True
    )
    assert [type(each) for each in outcomes if each] == [ConflictError] * 4
    outcomes = await asyncio.gather(
        *(store.create(created(receiver, f"shop {number}")) for number in range(5)),
        return_exceptions=True,
    )
    assert [type(each) for each in outcomes if each] == [RejectedError] * 4
