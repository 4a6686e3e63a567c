"""What everybody relies on in a place for large content: it is there until its event has ended, it
is the right one, and then it goes.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import DocumentId, TenantId
from livedex.pipeline.settings.blob_location import parse_blob_url
from livedex.pipeline.store.blobs.object_blob_store import ObjectBlobStore
from livedex.pipeline.store.blobs.object_storage import ObjectStorage
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.protocol import BlobStore
from tests.support.http.scripted_s3 import BUCKET, S3Server

ACME, OTHER = TenantId("acme"), TenantId("other")
A, B = DocumentId("docs/a.md"), DocumentId("docs/b.md")
Age = Callable[[float], Awaitable[None]]
CONTENT = bytes(range(256)) * 1200
NAMES = [
    "..",
    "../../b",
    "a/b",
    "a//b",
    "/a",
    "a/",
    "a b+c%2F?#&",
    "ü\n☃",
    "x" * 2000,
    "CON",
    ".",
    "a\\b",
    "*",
]


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(params=["database", "folder", "s3"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def blobs(
    kind: str, database: Database, owner: asyncpg.Connection, tmp_path: Path, s3: S3Server
) -> BlobStore:
    await owner.execute("insert into tenants (tenant_id) values ('acme'), ('other')")
    if kind == "database":
        return PostgresBlobStore(database)
    url = (
        f"file://{tmp_path}/a%20folder/contents" if kind == "folder" else f"s3://{BUCKET}/pre fix/ü"
    )
    made = ObjectBlobStore(ObjectStorage(parse_blob_url(url)), database)
    await made.check()
    return made


@pytest.fixture
def age(owner: asyncpg.Connection, tmp_path: Path, s3: S3Server) -> Age:
    """Make everything that is kept so many hours old."""

    async def make(hours: float) -> None:
        then = datetime.now(UTC) - timedelta(hours=hours)
        await owner.execute("update blobs set created_at = $1", then)
        for path in tmp_path.rglob("*-*"):
            os.utime(path, (then.timestamp(), then.timestamp()))
        s3.objects.update({key: (content, then) for key, (content, _) in s3.objects.items()})

    return make


async def is_there(
    blobs: BlobStore,
    tenant_id: TenantId,
    document_id: DocumentId,
    version: int,
    content: bytes = CONTENT,
) -> bool:
    try:
        return await blobs.get(tenant_id, document_id, version, sha(content)) == content
    except RejectedError:
        return False


async def left(blobs: BlobStore, versions: range, document_id: DocumentId = A) -> set[int]:
    return {version for version in versions if await is_there(blobs, ACME, document_id, version)}


async def has_state(
    owner: asyncpg.Connection,
    document_id: str,
    version: int | None,
    *,
    pending: int | None = None,
    tenant: str = "acme",
) -> None:
    await owner.execute(
        "insert into documents (tenant_id, document_id, version, digest, state, "
        "pending_version, pending_digest)"
        " values ($1, $2, $3, '\\x00', $4, $5, $6)",
        tenant,
        document_id,
        version,
        None if version is None else "synced",
        pending,
        None if pending is None else b"\x00",
    )


async def test_what_was_put_is_there(blobs: BlobStore) -> None:
    await blobs.put(ACME, A, 1, CONTENT)
    assert await blobs.get(ACME, A, 1, sha(CONTENT)) == CONTENT


async def test_putting_it_again_changes_nothing(blobs: BlobStore) -> None:
    await asyncio.gather(*(blobs.put(ACME, A, 1, CONTENT) for _ in range(8)))
    assert await is_there(blobs, ACME, A, 1)


async def test_contents_of_one_version_stand_side_by_side(blobs: BlobStore) -> None:
    await blobs.put(ACME, A, 1, CONTENT)
    await blobs.put(ACME, A, 1, CONTENT + b"!")
    assert await is_there(blobs, ACME, A, 1)
    assert await is_there(blobs, ACME, A, 1, CONTENT + b"!")


@pytest.mark.parametrize(
    "other",
    [(OTHER, A, 1), (ACME, B, 1), (ACME, A, 2), (TenantId("acme/docs"), DocumentId("a.md"), 1)],
)
async def test_nobody_else_finds_it(
    blobs: BlobStore, other: tuple[TenantId, DocumentId, int]
) -> None:
    await blobs.put(ACME, A, 1, CONTENT)
    assert not await is_there(blobs, *other)


async def test_what_is_missing_says_what_to_do(blobs: BlobStore) -> None:
    with pytest.raises(
        RejectedError, match=r"docs/a\.md v7 was deleted: send the document again"
    ) as refused:
        await blobs.get(ACME, A, 7, sha(CONTENT))
    assert refused.value.reason == "content_missing"


async def test_no_name_reaches_the_place_of_another(blobs: BlobStore) -> None:
    for n, name in enumerate(NAMES):
        for tenant_id in (ACME, TenantId(name[:200])):
            await blobs.put(tenant_id, DocumentId(name), n, name.encode() * 9)
    for n, name in enumerate(NAMES):
        for tenant_id in (ACME, TenantId(name[:200])):
            assert await is_there(blobs, tenant_id, DocumentId(name), n, name.encode() * 9)
            await blobs.discard(tenant_id, DocumentId(name), n)
            assert not await is_there(blobs, tenant_id, DocumentId(name), n, name.encode() * 9)


async def test_discarding_takes_every_version_up_to_the_one_given_and_no_other(
    blobs: BlobStore,
) -> None:
    versions = [1, 9, 10, 2**62, 2**63 - 1]
    for version in versions:
        await blobs.put(ACME, A, version, CONTENT)
    await blobs.put(ACME, A, 10, CONTENT + b"!")
    await blobs.put(ACME, B, 1, CONTENT)
    await blobs.put(OTHER, A, 1, CONTENT)
    await blobs.discard(ACME, A, 10)
    assert [version for version in versions if await is_there(blobs, ACME, A, version)] == [
        2**62,
        2**63 - 1,
    ]
    assert not await is_there(blobs, ACME, A, 10, CONTENT + b"!")
    assert await is_there(blobs, ACME, B, 1)
    assert await is_there(blobs, OTHER, A, 1)


async def test_discarding_what_is_not_there_is_no_error(blobs: BlobStore) -> None:
    await blobs.put(ACME, A, 1, CONTENT)
    await asyncio.gather(*(blobs.discard(ACME, A, 1) for _ in range(4)))
    await blobs.discard(ACME, B, 1)
    assert not await is_there(blobs, ACME, A, 1)


async def test_content_of_an_ended_version_is_cleared_once_no_late_event_can_name_it(
    blobs: BlobStore, owner: asyncpg.Connection, age: Age
) -> None:
    await has_state(owner, A, 2)
    for version in (1, 2, 3):
        await blobs.put(ACME, A, version, CONTENT)
    await age(0.5)
    await blobs.clear_ended(1.0)
    assert {2, 3} <= await left(blobs, range(1, 4))
    await age(1.5)
    await blobs.clear_ended(1.0)
    assert await left(blobs, range(1, 4)) == {3}


async def test_content_that_an_event_may_still_name_is_never_cleared(
    blobs: BlobStore, owner: asyncpg.Connection, age: Age
) -> None:
    await has_state(owner, A, 1)  # version 2 waits in the broker, where nobody has seen it
    await has_state(owner, B, 1, pending=2)
    await has_state(owner, "new", None, pending=1)
    await has_state(owner, A, 9, tenant="other")
    places = [(A, 2), (B, 1), (B, 2), (DocumentId("new"), 1), (DocumentId("unknown"), 1)]
    for document_id, version in places:
        await blobs.put(ACME, document_id, version, CONTENT)
    await age(24 * 365)
    await blobs.clear_ended(1.0)
    assert [place for place in places if await is_there(blobs, ACME, *place)] == places


async def test_clearing_goes_on_where_a_crash_left_it(
    blobs: BlobStore, owner: asyncpg.Connection, age: Age
) -> None:
    for n in range(40):
        await has_state(owner, f"d{n}", 5)
        for version in (3, 5):
            await blobs.put(ACME, DocumentId(f"d{n}"), version, CONTENT)
    await age(2)
    await blobs.discard(ACME, DocumentId("d0"), 3)
    await asyncio.gather(blobs.clear_ended(1.0), blobs.clear_ended(1.0))
    assert not any(
        [
            await is_there(blobs, ACME, DocumentId(f"d{n}"), version)
            for n in range(40)
            for version in (3, 5)
        ]
    )


async def test_everything_of_one_tenant_goes_and_nothing_of_another(blobs: BlobStore) -> None:
    for name in NAMES:
        for tenant in (ACME, OTHER):
            await blobs.put(tenant, DocumentId(name), 1, CONTENT)
    await blobs.discard_tenant(ACME)
    await blobs.discard_tenant(ACME)
    for name in NAMES:
        assert await blobs.get(OTHER, DocumentId(name), 1, sha(CONTENT)) == CONTENT
        with pytest.raises(RejectedError):
            await blobs.get(ACME, DocumentId(name), 1, sha(CONTENT))
