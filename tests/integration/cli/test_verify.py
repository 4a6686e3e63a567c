"""The proof finds each kind of damage, names the document, and the repair mends it for no more
than it must cost.
"""

from __future__ import annotations

import asyncpg
import pytest

from livedex.app.broker import open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.verify.checks import verify_index
from livedex.pipeline.events.event import Changed
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import DocumentId
from tests.support.pipelines.indexed_folder import IndexedFolder, page, paragraph

ONE = DocumentId("docs/one.md")
NEWER = 10**18 * 4
"""A version above that of every file."""


async def test_a_true_index_has_no_difference_and_everything_is_counted(
    indexed: IndexedFolder,
) -> None:
    async with indexed.opened() as s:
        proof = await verify_index(s)
    [tenant] = proof.tenants.values()
    assert proof.differences == []
    assert tenant.documents == 3
    assert len(tenant.shown) == tenant.vectors == 9


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("update passages set content = 'x' || content where passage_id = $1", "passage"),
        (
            "update passages set content = 'X' || substr(content, 2) where passage_id = $1",
            "passage",
        ),
        ("update passages set hash = sha256('another') where passage_id = $1", "passage"),
        ("update passages set length = length + 1 where passage_id = $1", "words"),
        ("update passages set tsv = to_tsvector('nonsense') where passage_id = $1", "words"),
        ("update passages set terms = terms + 1 where passage_id = $1", "words"),
        ("delete from vectors_1 where passage_id = $1", "vector"),
        (
            "update vectors_1 set embedding = (embedding::vector * array_fill(2, "
            "array[256])::vector)::halfvec where passage_id = $1",
            "vector",
        ),
        ("update chunks set gap = gap + 1 where passage_id = $1", "chunks"),
        ("update chunks set length = length - 1 where passage_id = $1", "chunks"),
        ("update chunks set heading = '{Wrong}' where passage_id = $1", "chunks"),
        ("update chunks set position = position + 1000000000000 where passage_id = $1", "chunks"),
        ("delete from chunks where passage_id = $1", "chunks"),
        (
            "insert into chunks select tenant_id, doc_id, 1, passage_id, gap, length, "
            "heading from chunks where passage_id = $1",
            "chunks",
        ),
    ],
)
async def test_damage_to_a_chunk_is_named_and_mended(
    indexed: IndexedFolder, owner: asyncpg.Connection, damage: str, kind: str
) -> None:
    passage = await owner.fetchval(
        "select passage_id from chunks join documents using (doc_id) where document_id = $1 "
        "order by position offset 1 limit 1",
        ONE,
    )
    assert (await owner.execute(damage, passage)).split()[-1] == "1"
    before = await indexed.differences()
    assert (kind, ONE) in before
    assert {document for _, document in before} == {ONE}
    paid = indexed.embedded
    after, told = await indexed.repair()
    assert after.differences == []
    assert told != []
    assert indexed.embedded - paid <= 1


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        ("delete from documents where document_id = $1", "stale"),
        ("update documents set chunk_count = 7 where document_id = $1", "chunks"),
        ("update documents set title = 'Wrong' where document_id = $1", "attributes"),
        ("update documents set metadata = '{\"a\": 1}' where document_id = $1", "attributes"),
        ("update documents set state = 'empty' where document_id = $1", "stale"),
        ("update documents set cut = 'some other way' where document_id = $1", "stale"),
        ("update documents set version = version - 5 where document_id = $1", "stale"),
        (
            "update documents set pending_version = version + 5, pending_digest = digest "
            "where document_id = $1",
            "under_way",
        ),
        (
            "update documents set dead_version = version + 5, dead_error = 'poison' where "
            "document_id = $1",
            "dead",
        ),
    ],
)
async def test_damage_to_a_document_is_named_and_mended_without_paying_again(
    indexed: IndexedFolder, owner: asyncpg.Connection, damage: str, kind: str
) -> None:
    assert (await owner.execute(damage, ONE)).split()[-1] == "1"
    before = await indexed.differences()
    assert (kind, ONE) in before
    assert {document for _, document in before} == {ONE}
    paid = indexed.embedded
    after, _ = await indexed.repair()
    assert after.differences == []
    assert indexed.embedded == paid


async def test_chunks_without_a_document_are_named_and_taken_away(
    indexed: IndexedFolder, owner: asyncpg.Connection
) -> None:
    async with owner.transaction():
        # or the foreign key would not let it happen
        await owner.execute("set local session_replication_role = replica")
        await owner.execute(
            "insert into chunks select tenant_id, 999999, position, passage_id, gap, length, "
            "heading from chunks where doc_id = (select max(doc_id) from chunks) limit 2"
        )
    assert await indexed.differences() == {("orphan", None)}
    after, _ = await indexed.repair()
    assert after.differences == []


async def test_every_change_on_the_disk_is_named(indexed: IndexedFolder) -> None:
    indexed.write("one.md", page(1, sections=5))
    indexed.write("new.md", paragraph(9))
    (indexed.folder / "two.md").rename(indexed.folder / "renamed.md")
    (indexed.folder / "notes/three.txt").unlink()
    assert await indexed.differences() == {
        ("stale", ONE),
        ("missing", "docs/new.md"),
        ("missing", "docs/renamed.md"),
        ("left_over", "docs/two.md"),
        ("left_over", "docs/notes/three.txt"),
    }
    paid = indexed.embedded
    after, _ = await indexed.repair()
    assert after.differences == []
    assert indexed.embedded - paid == 2


async def test_a_file_changed_behind_its_fingerprint_is_found_by_its_content(
    indexed: IndexedFolder, owner: asyncpg.Connection
) -> None:
    path = indexed.folder / "one.md"
    path.write_text(page(4), "utf-8")
    found = path.stat()
    fingerprint = await owner.fetchval(
        "select fingerprint from source_files where document_id = $1", ONE
    )
    how, *_, attributes = fingerprint.split(" ")
    lie = (
        f"{how} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} {attributes}"
    )
    await owner.execute("update source_files set fingerprint = $2 where document_id = $1", ONE, lie)
    assert ("chunks", ONE) in await indexed.differences()
    after, _ = await indexed.repair()
    assert after.differences == []


async def test_deletes_that_a_scan_would_withhold_are_released_by_a_repair(
    indexed: IndexedFolder,
) -> None:
    for n in range(30):
        indexed.write(f"many/{n}.md", paragraph(1000 + n))
    await indexed.sync()
    for n in range(30):
        (indexed.folder / f"many/{n}.md").unlink()
    assert {kind for kind, _ in await indexed.differences()} == {"left_over"}
    after, before = await indexed.repair()
    assert len(before) == 30
    assert after.differences == []


async def test_a_folder_that_is_away_is_named_and_nothing_of_it_is_deleted(
    indexed: IndexedFolder,
) -> None:
    away = indexed.folder.rename(indexed.folder.with_name("away"))
    assert ("source", None) in await indexed.differences()
    after, _ = await indexed.repair()
    assert {d.kind for d in after.differences} == {"source"}
    away.rename(indexed.folder)
    assert await indexed.differences() == set()


@pytest.mark.parametrize("text", [page(8).encode(), None])
async def test_what_others_wrote_over_a_file_or_deleted_is_named_and_mended(
    indexed: IndexedFolder, text: bytes | None
) -> None:
    data = Changed(
        tenant_id="default", document_id=ONE, version=NEWER, deleted=text is None, name="one.md"
    )
    async with indexed.opened() as s, open_broker(s, ("chunk", "embed", "sync")) as running:
        await running.intake.accept([Change(data, text)])
        assert (
            await wait_for_catch_up(s.operations, s.backlog, deadline=float("inf"), scan=False)
        ).all
    assert await indexed.differences() == {("stale", ONE)}
    paid = indexed.embedded
    after, told = await indexed.repair()
    assert (after.differences, len(told), indexed.embedded - paid) == ([], 1, 0)


async def test_a_document_sent_by_api_is_proven_too_and_gets_its_vectors_back(
    indexed: IndexedFolder, owner: asyncpg.Connection
) -> None:
    data = Changed(tenant_id="default", document_id="sent", version=5, name="sent.md")
    async with indexed.opened() as s, open_broker(s, ("chunk", "embed", "sync")) as running:
        await running.intake.accept([Change(data, page(8).encode())])
        assert (
            await wait_for_catch_up(s.operations, s.backlog, deadline=float("inf"), scan=False)
        ).all
    assert await indexed.differences() == set()
    await owner.execute(
        "delete from vectors_1 where passage_id in (select passage_id from chunks join "
        "documents using (doc_id) where document_id = 'sent')"
    )
    assert await indexed.differences() == {("vector", "sent")}
    after, _ = await indexed.repair()
    assert after.differences == []
    assert await owner.fetchval("select version from documents where document_id = 'sent'") == 5
