"""Versions that are given: each once, later ones greater, the same for what comes again; whatever
the tenant, only its own counts.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import asyncpg
import pytest

from livedex.pipeline.errors import ConflictError
from livedex.pipeline.model import Attributes, DocumentId, Fence, TenantId
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.documents.version_allocator import (
    VERSION_LIMIT,
    VersionAllocator,
    VersionRequest,
    delivery_key,
    range_from,
)
from livedex.pipeline.store.postgres.statements import sql

T, OTHER = TenantId("t"), TenantId("other")
D, E = DocumentId("d"), DocumentId("e")
SECOND = 10**9


def now(document_id: DocumentId = D, at: int = 100, key: bytes | None = None) -> VersionRequest:
    return VersionRequest(document_id, at, range_from(at), key)


@pytest.fixture
def versions(database: Database) -> VersionAllocator:
    return VersionAllocator(database)


async def test_a_change_of_now_is_newer_than_all_that_was_given(versions: VersionAllocator) -> None:
    assert await versions.give(T, [now(at=100)]) == [100]
    assert await versions.give(T, [now(at=90), now(at=90), now(E, 90)]) == [101, 102, 90]
    assert await versions.give(T, [VersionRequest(D, 500)]) == [500]
    assert await versions.give(T, [now(at=110)]) == [501]
    assert await versions.give(OTHER, [now(at=110)]) == [110]


async def test_a_change_of_now_is_newer_than_all_that_is_known_of_its_document(
    versions: VersionAllocator, database: Database
) -> None:
    store = PgVectorStore(database)
    await store.accept(T, D, Fence(900, bytes(33)), Attributes(), datetime.now(UTC))
    assert await versions.give(T, [now()]) == [901]


async def test_an_exact_version_is_what_it_is(versions: VersionAllocator) -> None:
    assert await versions.give(
        T, [VersionRequest(D, 7), VersionRequest(D, 3), VersionRequest(D, 7)]
    ) == [7, 3, 7]


async def test_among_changes_of_one_second_the_later_one_wins_and_none_leaves_its_second(
    versions: VersionAllocator,
) -> None:
    assert await versions.give(
        T, [VersionRequest(D, 5 * SECOND, SECOND), VersionRequest(D, 5 * SECOND, SECOND)]
    ) == [
        5 * SECOND,
        5 * SECOND + 1,
    ]
    assert await versions.give(
        T, [VersionRequest(D, 4 * SECOND, SECOND), VersionRequest(D, 6 * SECOND, SECOND)]
    ) == [
        4 * SECOND,
        6 * SECOND,
    ]
    await versions.give(T, [VersionRequest(D, 7 * SECOND - 1)])
    assert await versions.give(T, [VersionRequest(D, 6 * SECOND, SECOND)]) == [7 * SECOND - 1]


async def test_what_comes_again_gets_what_it_got(versions: VersionAllocator) -> None:
    key, other = delivery_key("hooks", "1", D), delivery_key("hooks", "2", D)
    [first] = await versions.give(T, [now(key=key)])
    await versions.give(T, [now(at=1000)])
    assert await versions.give(
        T, [now(at=2000, key=key), now(at=2000, key=other), now(at=2000, key=other)]
    ) == [first, 2000, 2000]
    assert await versions.give(OTHER, [now(at=2000, key=key)]) == [2000]


async def test_many_at_once_get_a_version_each_and_one_delivery_gets_one(
    versions: VersionAllocator,
) -> None:
    given = await asyncio.gather(*(versions.give(T, [now(), now(E)]) for _ in range(20)))
    assert sorted(version for version, _ in given) == list(range(100, 120))
    key = delivery_key("events", "1", D)
    again = await asyncio.gather(
        *(versions.give(T, [now(at=10**6 + n, key=key)]) for n in range(20))
    )
    assert len({version for [version] in again}) == 1


async def test_nothing_is_newer_than_the_greatest_version(versions: VersionAllocator) -> None:
    await versions.give(T, [VersionRequest(D, VERSION_LIMIT - 1)])
    with pytest.raises(ConflictError):
        await versions.give(T, [now()])
    assert await versions.give(T, [VersionRequest(D, VERSION_LIMIT - 1)]) == [VERSION_LIMIT - 1]
    assert await versions.give(T, [replace(now(), deletes=True)]) == [VERSION_LIMIT - 1], (
        "a delete wins over its equals"
    )


async def test_what_is_no_longer_needed_is_cleared(
    versions: VersionAllocator, database: Database, owner: asyncpg.Connection
) -> None:
    await versions.give(T, [now(key=delivery_key("a", "1", D)), now(E, 50)])
    await PgVectorStore(database).accept(
        T, E, Fence(50, bytes(33)), Attributes(), datetime.now(UTC)
    )

    async def cleared() -> tuple[set[str], int]:
        async with database.tenant(T) as connection:
            await connection.execute(sql("clear_issued_versions"), T, 30.0)
            await connection.execute(sql("clear_deliveries"), T, 30.0)
        rows = await owner.fetch("select document_id from issued_versions")
        return {row["document_id"] for row in rows}, await owner.fetchval(
            "select count(*) from deliveries"
        )

    assert await cleared() == ({D, E}, 1)
    await owner.execute("update issued_versions set issued_at = issued_at - interval '2 hours'")
    assert await cleared() == ({D}, 1)
    await owner.execute("update issued_versions set issued_at = issued_at - interval '31 days'")
    await owner.execute("update deliveries set received_at = received_at - interval '31 days'")
    assert await cleared() == (set(), 0)
