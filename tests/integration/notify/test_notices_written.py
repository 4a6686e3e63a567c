"""What is written for subscribers, and by which transactions; and that nothing is where nobody
wants to know.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from livedex.pipeline.errors import RejectedError, TenantDeletedError
from livedex.pipeline.events.event import CHANGED, Changed, change_event
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.postgres.statements import sql
from livedex.pipeline.store.subscriber_store import SubscriberStore
from livedex.pipeline.store.tenant_store import TenantStore
from tests.integration.notify.conftest import pending_notices, registration
from tests.support.builders.document_states import DocumentBuilder, fence


async def rows(owner: asyncpg.Connection) -> list[tuple[Any, ...]]:
    """Subscriber, kind, document and version of each notice, in their order."""
    found = await owner.fetch(
        "select subscriber, kind, document_id, version from notices order by notice_id, subscriber"
    )
    return [tuple(row) for row in found]


def letter(
    letter_id: str = "l", version: int = 3, document_id: str | None = "a", tenant: str = "default"
) -> DeadLetter:
    return DeadLetter(
        letter_id,
        TenantId(tenant),
        "embed",
        document_id,
        version if document_id else None,
        "rejected",
        "why",
        1,
        CHANGED,
    )


async def test_where_nobody_wants_to_know_nothing_is_written(
    filling: DocumentBuilder, database: Database, owner: asyncpg.Connection
) -> None:
    await filling.sync("a", 1, "text")
    await filling.delete("a", 2)
    await DeadLetterStore(database).bury(letter())
    assert await pending_notices(owner) == 0


async def test_what_becomes_visible_is_deleted_or_dies_is_written_for_who_wants_it(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    await subscribers.configure(
        [
            registration("all"),
            registration("died", events=("dead",)),
            registration("gone", events=("deleted",)),
        ]
    )
    await filling.sync("a", 1, "text")
    await filling.sync("a", 2, outcome="unreadable", error="permission")
    await DeadLetterStore(database).bury(letter())
    await filling.delete("a", 4)
    assert sorted(await rows(owner), key=lambda row: (row[3], row[0])) == [
        ("all", "synced", "a", 1),
        ("all", "synced", "a", 2),
        ("all", "dead", "a", 3),
        ("died", "dead", "a", 3),
        ("all", "deleted", "a", 4),
        ("gone", "deleted", "a", 4),
    ]
    ids = await owner.fetch(
        "select kind, count(distinct event_id) as ids, count(*) as rows from notices where "
        "kind <> 'synced' group by kind"
    )
    assert {row["kind"]: (row["ids"], row["rows"]) for row in ids} == {
        "dead": (1, 2),
        "deleted": (1, 2),
    }, "one event, whoever is told"


async def test_a_record_that_comes_again_writes_nothing_again(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    await subscribers.configure([registration()])
    await filling.sync("a", 2, "text")
    for _ in range(3):
        assert (
            await filling.store.sync_document(TenantId("default"), DocumentId("a"), fence(2), None)
        ).current
        await DeadLetterStore(database).bury(letter(version=3))
    await filling.store.delete_document(
        TenantId("default"), DocumentId("a"), fence(1, deleted=True)
    )
    assert await rows(owner) == [("shop", "synced", "a", 2), ("shop", "dead", "a", 3)]


async def test_a_version_that_lost_is_not_told(
    filling: DocumentBuilder, subscribers: SubscriberStore, owner: asyncpg.Connection
) -> None:
    await filling.sync("a", 5, "text")
    await subscribers.configure([registration()])
    await filling.store.delete_document(
        TenantId("default"), DocumentId("a"), fence(4, deleted=True)
    )
    with pytest.raises(RejectedError):
        await filling.store.sync_document(TenantId("default"), DocumentId("a"), fence(6), None)
    assert await pending_notices(owner) == 0


async def test_a_transaction_that_fails_leaves_no_notice(
    filling: DocumentBuilder, subscribers: SubscriberStore, owner: asyncpg.Connection
) -> None:
    """The swap of chunks comes after the notice, and fails here."""
    await subscribers.configure([registration()])
    await owner.execute(
        "create function fail() returns trigger language plpgsql as $$ begin raise exception "
        "'no'; end $$"
    )
    await owner.execute(
        "create trigger fail before insert on chunks for each statement execute function fail()"
    )
    with pytest.raises(asyncpg.RaiseError):
        await filling.sync("a", 1, "text")
    assert await pending_notices(owner) == 0
    await owner.execute("drop trigger fail on chunks")
    assert (
        await filling.store.sync_document(TenantId("default"), DocumentId("a"), fence(1), None)
    ).current
    assert await rows(owner) == [("shop", "synced", "a", 1)]


async def test_a_subscriber_to_a_collection_is_told_of_what_is_in_it_enters_it_and_leaves_it(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    await subscribers.configure(
        [
            registration("blue", collections=("blue", "navy")),
            registration("red", collections=("red",)),
        ]
    )
    await filling.sync("a", 1, "text", collection="blue")
    await filling.sync("b", 1, "text", collection="green")
    await filling.sync("a", 2, "text", collection="red")
    await filling.delete("a", 3)
    told = await owner.fetch(
        "select subscriber, kind, version, data ->> 'collection' as within from notices "
        "order by version, subscriber"
    )
    assert [tuple(row) for row in told] == [
        ("blue", "synced", 1, "blue"),
        ("blue", "synced", 2, "red"),
        ("red", "synced", 2, "red"),
        ("red", "deleted", 3, "red"),
    ]


async def test_a_letter_is_told_to_the_collection_that_its_version_had_or_would_have_had(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    await filling.sync("a", 1, "text", collection="blue")
    await subscribers.configure(
        [registration("blue", collections=("blue",)), registration("red", collections=("red",))]
    )
    event = change_event(
        Changed(tenant_id="default", document_id="a", version=2, content="", collection="red")
    )
    await DeadLetterStore(database).bury(letter("first", 2), event)
    await DeadLetterStore(database).bury(
        letter("second", 3, "b"),
        change_event(
            Changed(tenant_id="default", document_id="b", version=3, content="", collection="red")
        ),
    )
    await DeadLetterStore(database).bury(letter("third", 4))
    told = await owner.fetch(
        "select subscriber, data ->> 'letter_id' as letter, data ->> 'collection' as within "
        "from notices order by notice_id, subscriber"
    )
    assert sorted(tuple(row) for row in told) == [
        ("blue", "first", "red"),
        ("blue", "third", "blue"),
        ("red", "first", "red"),
        ("red", "second", "red"),
    ]


async def test_a_letter_that_belongs_to_nobody_is_told_to_nobody_of_a_tenant(
    subscribers: SubscriberStore, database: Database, owner: asyncpg.Connection
) -> None:
    await subscribers.configure([registration(), registration("operator", UNKNOWN_TENANT)])
    await DeadLetterStore(database).bury(letter(document_id=None, tenant=UNKNOWN_TENANT))
    assert await rows(owner) == [("operator", "dead", None, None)]


async def test_a_tenant_s_subscribers_are_told_of_its_own_documents_alone(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    owner: asyncpg.Connection,
    database: Database,
) -> None:
    await subscribers.configure([registration("ours"), registration("theirs", "acme")])
    await filling.sync("a", 1, "text")
    await filling.sync("b", 1, "text", tenant="acme")
    assert sorted(await rows(owner)) == [("ours", "synced", "a", 1), ("theirs", "synced", "b", 1)]
    async with database.tenant(TenantId("acme")) as connection:
        assert [
            row["document_id"] for row in await connection.fetch("select document_id from notices")
        ] == ["b"]
        assert await connection.fetchval("select count(*) from subscribers") == 1
    async with database.system() as connection:
        assert await connection.fetchval("select count(*) from notices") == 0


async def test_a_deleted_tenant_s_notices_go_with_it_and_none_come_after(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    database: Database,
    owner: asyncpg.Connection,
) -> None:
    await subscribers.configure([registration("theirs", "acme"), registration("ours")])
    await filling.sync("b", 1, "text", tenant="acme")
    await filling.sync("a", 1, "text")
    await TenantStore(database, PostgresBlobStore(database)).delete(TenantId("acme"))
    assert await rows(owner) == [("ours", "synced", "a", 1)]
    with pytest.raises(TenantDeletedError):
        await subscribers.add(registration("theirs", "acme"))
    with pytest.raises(TenantDeletedError):
        await DeadLetterStore(database).bury(letter(tenant="acme"))
    assert await subscribers.configure([registration("theirs", "acme"), registration("ours")]) == []
    assert [each.name for each in await subscribers.all()] == ["ours"]


async def test_a_subscriber_removed_from_the_settings_gets_no_new_rows_and_keeps_the_old_ones(
    filling: DocumentBuilder, subscribers: SubscriberStore, owner: asyncpg.Connection
) -> None:
    await subscribers.configure([registration(), registration("kept")])
    await filling.sync("a", 1, "text")
    assert await subscribers.configure([registration("kept")]) == ["shop"]
    await filling.sync("a", 2, "text")
    assert sorted(await rows(owner)) == [
        ("kept", "synced", "a", 1),
        ("kept", "synced", "a", 2),
        ("shop", "synced", "a", 1),
    ]
    assert {each.name: each.state for each in await subscribers.all()} == {
        "kept": "ok",
        "shop": "not configured",
    }
    await subscribers.configure([registration(), registration("kept")])
    await filling.sync("a", 3, "text")
    assert ("shop", "synced", "a", 3) in await rows(owner)
    await owner.execute("delete from notices where subscriber = 'shop'")
    await subscribers.configure([registration("kept")])
    await subscribers.configure([registration("kept")])
    assert [each.name for each in await subscribers.all()] == ["kept"]


@pytest.mark.parametrize(
    ("reads", "configured", "cleared_after"),
    [(True, True, 7), (False, True, 14), (False, False, 7)],
)
async def test_what_waits_for_too_long_is_cleared_away(
    filling: DocumentBuilder,
    subscribers: SubscriberStore,
    owner: asyncpg.Connection,
    database: Database,
    reads: bool,
    configured: bool,
    cleared_after: int,
) -> None:
    await subscribers.configure([registration(reads=reads)])
    await filling.sync("a", 1, "text")
    if not configured:
        await subscribers.configure([])
    for days, left in ((cleared_after - 0.1, 1), (cleared_after + 0.1, 0)):
        await owner.execute(
            "update notices set at = now() - make_interval(secs => $1 * 86400.0)", days
        )
        async with database.tenant(TenantId("default")) as connection:
            await connection.execute(sql("clear_notices"), "default")
        assert await pending_notices(owner) == left
