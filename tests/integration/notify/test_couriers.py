"""Telling subscribers on a real database: in order, once where nothing fails, again where
something does, and never in each other's way.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict

import asyncpg
import pytest

from livedex.consumers.notify.delivery_worker import MAX_CONCURRENT
from livedex.pipeline.model import DEFAULT_TENANT, TenantId
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.notification_outbox import NotificationOutbox
from livedex.pipeline.store.subscriber_store import SubscriberStore
from livedex.pipeline.store.tenant_store import TenantStore
from tests.integration.notify.conftest import (
    Start,
    pending_notices,
    registration,
    wait_all_notified,
)
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.scripted_server import HttpResponse
from tests.support.http.scripted_subscriber import Delivery, SubscriberServer

DEFAULT = TenantId("default")


async def test_what_happens_is_told_and_what_was_told_is_gone(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    async with start((registration(), receiver)) as notifying:
        await filling.sync("a", 1, "text", source="docs")
        await DeadLetterStore(database).bury(
            DeadLetter("4f1c", DEFAULT, "embed", "a", 2, "rejected", "secret words", 1)
        )
        await filling.delete("a", 3)
        await wait_all_notified(owner)
        assert receiver.said == [
            ("livedex.synced", "a", 1),
            ("livedex.dead", "a", 2),
            ("livedex.deleted", "a", 3),
        ]
        assert receiver.deliveries[1].event["data"] == {
            "tenant_id": "default",
            "document_id": "a",
            "version": 2,
            "collection": "default",
            "stage": "embed",
            "reason": "rejected",
            "letter_id": "4f1c",
        }
    assert notifying.count("done") == 3
    assert notifying.health == [("subscriber:shop", None)]
    assert len(set(receiver.ids)) == 3
    assert receiver.unsigned == []


async def test_it_is_told_at_once_and_not_at_the_next_look(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the looking-again put off, only the wake can make it come."""
    monkeypatch.setattr("livedex.consumers.notify.delivery_worker._POLL_S", 600.0)
    async with start((registration(), receiver)):
        for version in range(1, 4):
            await filling.sync("a", version, f"text {version}")
            await receiver.told(version, 10)


async def test_documents_keep_their_order_however_many_are_told_at_once(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    await filling_versions(start, filling, documents=12, versions=6)
    flaky: Counter[str] = Counter()

    def answer(delivery: Delivery) -> int:
        time.sleep(0.002)
        flaky[delivery.id] += 1
        return 500 if flaky[delivery.id] == 1 and delivery.said[2] == 3 else 204

    receiver.answer = answer
    async with start((registration(), receiver)), start((registration(), receiver)):
        await wait_all_notified(owner)
    told: defaultdict[str | None, list[int | None]] = defaultdict(list)
    for _, document_id, version in receiver.said:
        told[document_id].append(version)
    assert list(told.values()) == [[1, 2, 3, 3, 4, 5, 6]] * 12
    assert receiver.at_once > 1


async def filling_versions(
    start: Start, filling: DocumentBuilder, *, documents: int, versions: int
) -> None:
    """Versions of documents that wait to be told."""
    async with start((registration(), None)):
        for version in range(1, versions + 1):
            for n in range(documents):
                await filling.sync(f"d{n}", version, f"text {n} {version}")


async def test_two_processes_share_the_work_and_tell_everything_once(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    await filling_versions(start, filling, documents=60, versions=1)
    both = threading.Event()
    receiver.answer = lambda _: 204 if both.wait(30) else 500
    async with (
        start((registration(), receiver)) as one,
        start((registration(), receiver)) as other,
        asyncio.timeout(30),
    ):
        while receiver.at_once <= MAX_CONCURRENT:  # more than one of them has under way
            await asyncio.sleep(0.01)
        both.set()
        await wait_all_notified(owner)
    assert max(Counter(receiver.ids).values()) == 1
    assert len(receiver.ids) == 60
    assert one.count("done") + other.count("done") == 60
    assert one.count("done") and other.count("done")


async def test_a_slow_subscriber_holds_up_nobody(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    released = threading.Event()
    with SubscriberServer() as slow:
        slow.answer = lambda _: 204 if released.wait(30) else 500
        async with start((registration("slow"), slow), (registration("quick"), receiver)):
            for n in range(20):
                await filling.sync(f"d{n}", 1, f"text {n}")
            await receiver.told(20)
            assert (
                await owner.fetchval("select count(*) from notices where subscriber = 'slow'") == 20
            )
            assert slow.at_once <= 8, "bounded"
            released.set()
            await wait_all_notified(owner)
        assert len(slow.ids) == 20
        assert set(slow.ids) == set(receiver.ids), "one event, whoever is told"


async def test_what_is_refused_comes_again_with_the_same_id_and_body_and_a_new_time(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    receiver.answer = lambda _: 500 if len(receiver.deliveries) < 3 else 204
    async with start((registration(), receiver), wait=lambda failed: 1.1 * failed):
        await filling.sync("a", 1, "text")
        first, second, third = await receiver.told(3)
        await wait_all_notified(owner)
    assert first.id == second.id == third.id
    assert first.body == second.body == third.body
    times = [int(each.headers["webhook-timestamp"]) for each in (first, second, third)]
    assert times == sorted(set(times))
    assert len({each.headers["webhook-signature"] for each in (first, second, third)}) == 3
    assert second.arrived - first.arrived > 1.0 and third.arrived - second.arrived > 2.0


async def test_a_document_that_is_refused_holds_up_no_other_one(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    receiver.answer = lambda delivery: 500 if delivery.said[1] == "poison" else 204
    async with start((registration(), receiver), wait=lambda _: 600.0) as notifying:
        await filling.sync("poison", 1, "text")
        await receiver.told(1)
        for n in range(10):
            await filling.sync(f"d{n}", 1, f"text {n}")
        await receiver.told(11)
        await until_told_but(owner, 1)
        assert receiver.said.count(("livedex.synced", "poison", 1)) == 1
        assert [
            tuple(row) for row in await owner.fetch("select document_id, attempts from notices")
        ] == [("poison", 1)]
        assert [problem for _, problem in notifying.health] == [None], (
            "a subscriber that refuses one thing works"
        )


async def until_told_but(owner: asyncpg.Connection, left: int) -> None:
    """Until so many notices are left, and nothing is under way."""
    async with asyncio.timeout(30):
        while await pending_notices(owner) > left or await owner.fetchval(
            "select count(*) from notices where attempts = 0"
        ):  # another connection's
            await asyncio.sleep(0.01)


async def test_after_the_last_attempt_it_is_a_dead_letter_and_its_document_is_as_it_was(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    receiver.answer = lambda _: 400
    async with start((registration(), receiver), attempts=3) as notifying:
        await filling.sync("a", 1, "text")
        await wait_all_notified(owner)
    assert notifying.count("dead") == 1
    assert len(set(receiver.ids)) == 1 and len(receiver.ids) == 3
    [listed] = await DeadLetterStore(database).all()
    letter = await DeadLetterStore(database).find(listed.letter_id)
    assert (letter.stage, letter.document_id, letter.version, letter.reason, letter.attempts) == (
        "notify",
        "a",
        1,
        "refused",
        3,
    )
    assert letter.payload == receiver.deliveries[0].body
    assert "shop" in letter.detail and "/hook" not in letter.detail
    assert (
        await owner.fetchval("select state from documents where dead_version is null") == "synced"
    )
    receiver.answer = lambda _: 204
    async with start((registration(), receiver)):
        await NotificationOutbox(database).put_again(letter)
        await receiver.told(4)
        await wait_all_notified(owner)
    assert (receiver.deliveries[3].id, receiver.deliveries[3].body) == (
        letter.headers["webhook-id"],
        letter.payload,
    )


async def test_a_dead_notice_of_a_dead_letter_is_not_told_again_and_again(
    start: Start, receiver: SubscriberServer, database: Database, owner: asyncpg.Connection
) -> None:
    receiver.answer = lambda _: 400
    async with start((registration(), receiver), attempts=1):
        await DeadLetterStore(database).bury(
            DeadLetter("4f1c", DEFAULT, "embed", "a", 2, "rejected", "why", 1)
        )
        await wait_all_notified(owner)
        await asyncio.sleep(0.1)
        assert await pending_notices(owner) == 0
    assert sorted(letter.stage for letter in await DeadLetterStore(database).all()) == [
        "embed",
        "notify",
    ]


async def test_410_switches_a_subscriber_off_until_it_is_resumed(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    owner: asyncpg.Connection,
) -> None:
    receiver.answer = lambda _: 410
    async with start((registration(), receiver)) as notifying:
        await filling.sync("a", 1, "text")
        await until_said(notifying.health, "switched off")
        await filling.sync("b", 1, "text")
        assert await pending_notices(owner) == 2, "what happens meanwhile waits for it"
        assert (await subscribers.find("shop")).state == "stopped"
        receiver.answer = lambda _: 204
        await subscribers.resume(DEFAULT, "shop")
        await receiver.told(3)
        await filling.sync("c", 1, "text")
        await receiver.told(4)
        assert sorted(receiver.said) == [
            ("livedex.synced", name, 1) for name in ("a", "a", "b", "c")
        ]
        await until_said(notifying.health, None)
    assert (await subscribers.find("shop")).state == "ok"


async def until_said(health: list[tuple[str, str | None]], words: str | None) -> None:
    """Until the last word on the subscriber is this."""
    async with asyncio.timeout(15):
        # another task's
        while not health or (health[-1][1] is None if words else health[-1][1] is not None):
            await asyncio.sleep(0.01)
    assert words is None or words in str(health[-1][1])


async def test_a_subscriber_that_is_away_is_asked_by_one_at_a_time_and_then_told_everything(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    receiver.answer = lambda _: HttpResponse(200, b"", {}, hang_up=True)
    async with start((registration(), receiver)) as notifying:
        for n in range(30):
            await filling.sync(f"d{n}", 1, f"text {n}")
        await receiver.told(2)
        begun = len(receiver.deliveries)
        assert begun <= 8 + 2, "what was under way when it was found out, and one at a time since"
        await until_said(notifying.health, "127.0.0.1")
        receiver.answer = lambda _: 204
        await wait_all_notified(owner)
        await until_said(notifying.health, None)
    assert len(set(receiver.ids)) == 30


async def test_who_asks_for_patience_is_left_alone_for_that_long_and_no_attempt_is_used_up(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    receiver.answer = lambda _: (
        HttpResponse(429, b"", {"retry-after": "2"}) if len(receiver.deliveries) == 1 else 204
    )
    async with start((registration(), receiver), attempts=1):
        await filling.sync("a", 1, "text")
        first = (await receiver.told(1))[0]
        await filling.sync("b", 1, "text")
        second = (await receiver.told(3))[1]
        await wait_all_notified(owner)
    assert second.arrived - first.arrived >= 1.9
    assert await owner.fetchval("select count(*) from dead_letters") == 0


async def test_what_waits_for_longer_than_it_may_becomes_a_dead_letter(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    async with start((registration(), None)):
        for n in range(3):
            await filling.sync(f"d{n}", 1, f"text {n}")
    await owner.execute(
        "update notices set at = now() - interval '8 days' where document_id <> 'd2'"
    )
    async with start((registration(), receiver)):
        await receiver.told(1)
        await wait_all_notified(owner)
    assert receiver.said == [("livedex.synced", "d2", 1)]
    assert sorted(
        (letter.document_id, letter.reason) for letter in await DeadLetterStore(database).all()
    ) == [
        ("d0", "expired"),
        ("d1", "expired"),
    ]


async def test_after_a_tenant_was_emptied_its_subscriber_is_told_of_what_comes(
    start: Start, receiver: SubscriberServer, filling: DocumentBuilder, owner: asyncpg.Connection
) -> None:
    """`tenants delete default` empties it."""
    async with start((registration(), receiver)):
        await owner.execute("delete from subscribers")
        async with asyncio.timeout(15):
            while not await owner.fetchval("select count(*) from subscribers"):  # the courier's
                await asyncio.sleep(0.01)
        await filling.sync("a", 1, "text")
        await receiver.told(1)


async def test_a_database_that_was_away_stops_nothing_for_good(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    owner: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("livedex.consumers.notify.delivery_worker._UNAVAILABLE_POLL_S", 0.1)
    async with start((registration(), receiver)):
        await filling.sync("a", 1, "text")
        await receiver.told(1)
        for _ in range(3):
            await owner.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> "
                "pg_backend_pid() and datname = current_database()"
            )
            await asyncio.sleep(0.05)
        await wait_all_notified(owner)
        await filling.sync("b", 1, "text")
        await wait_all_notified(owner)
    assert {said[1] for said in receiver.said} == {"a", "b"}


async def test_subscribers_of_a_tenant_that_was_emptied_are_told_of_what_comes_at_once(
    start: Start,
    receiver: SubscriberServer,
    filling: DocumentBuilder,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    reader = registration(
        "reader", reads=True, events=("synced",), collections=("c",), keep_days=3.0
    )
    async with start((registration(), receiver), (reader, None)):
        await filling.sync("a", 1, "text")
        await receiver.told(1)
        before = await owner.fetch(
            "select name, events, collections, reads, keep_days, configured from subscribers "
            "order by name"
        )
        await TenantStore(database, PostgresBlobStore(database)).delete(DEFAULT_TENANT)
        assert (
            await owner.fetch(
                "select name, events, collections, reads, keep_days, configured from "
                "subscribers order by name"
            )
            == before
        )
        await filling.sync("b", 1, "text")
        await receiver.told(2)


async def test_subscribers_of_a_tenant_that_is_made_again_come_back(
    start: Start,
    receiver: SubscriberServer,
    database: Database,
    owner: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("livedex.consumers.notify.couriers._KEEP_EVERY_S", 0.05)
    acme, tenants = TenantId("acme"), TenantStore(database, PostgresBlobStore(database))
    async with start(
        (registration("told", "acme"), receiver), (registration("reader", "acme", reads=True), None)
    ):
        await tenants.delete(acme)
        assert await owner.fetchval("select count(*) from subscribers") == 0
        await asyncio.sleep(0.3)
        assert await owner.fetchval("select count(*) from subscribers") == 0, (
            "a deleted tenant stays deleted"
        )
        await tenants.create(acme, again=True)
        async with asyncio.timeout(30):
            # theirs, each when it looks
            while await owner.fetchval("select count(*) from subscribers where configured") < 2:
                await asyncio.sleep(0.01)
