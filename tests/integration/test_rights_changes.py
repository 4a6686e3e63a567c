"""Rights that change: who is shut out is so from when the change is known, and who is let in from
when it is visible.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from livedex.pipeline.events.event import Changed, ManifestRef, change_event, next_stage_event
from livedex.pipeline.model import Attributes, DocumentId, Fence, Reader
from livedex.pipeline.stages.batched_store import BatchedDraftStore
from livedex.pipeline.stages.chunk import ChunkStage
from livedex.pipeline.stages.document_chunker import ChunkerConfig, ThreadChunker
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.stages.remote_content import ContentFetcher, RemoteContent
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetter, DeadLetterStore
from livedex.pipeline.store.documents.document_queries import DocumentQueries
from livedex.pipeline.store.documents.fetched_content_cache import FetchedContentCache
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.drafts import Draft, DraftChunk
from tests.support.builders.search_corpus import TENANT

DOC = DocumentId("doc")
ANN, BOB = "user:ann", "user:bob"
Rights = tuple[str, ...] | None


class Rightful:
    """One document whose versions have rights."""

    def __init__(self, database: Database) -> None:
        self.database, self.store, self.letters = (
            database,
            PgVectorStore(database),
            DeadLetterStore(database),
        )

    def draft(
        self, version: int, acl: Rights, *, outcome: str = "synced", text: str = "saffron"
    ) -> Draft:
        pieces = (
            [DraftChunk(hashlib.sha256(text.encode()).digest(), text, 0, ())]
            if outcome == "synced"
            else []
        )
        fence = Fence(version, bytes([outcome == "deleted"]) + bytes(32))
        return Draft(
            TENANT,
            DOC,
            fence,
            outcome,
            Attributes(acl=acl),
            datetime.now(UTC),
            pieces,
            keep=outcome == "unreadable",
        )

    async def accept(self, version: int, acl: Rights, **more: Any) -> Draft:
        """A version is under way."""
        draft = self.draft(version, acl, **more)
        await self.store.save_drafts([draft])
        return draft

    async def sync(self, version: int, acl: Rights, **more: Any) -> None:
        draft = await self.accept(version, acl, **more)
        await self.store.sync_document(TENANT, DOC, draft.fence, None)

    async def bury(self, version: int, acl: Rights) -> None:
        """The version ends among the dead letters."""
        event = change_event(
            Changed(tenant_id=TENANT, document_id=DOC, version=version, acl=acl, content="")
        )
        await self.letters.bury(
            DeadLetter(f"l{version}", TENANT, "chunk", DOC, version, "failed", "why", 4), event
        )

    async def readers(self) -> str:
        """Who of ann, bob, somebody else and the operator may read it, as `ab-*`."""
        names = {"a": frozenset([ANN]), "b": frozenset([BOB]), "-": frozenset[str](), "*": None}
        seen = {
            name: await DocumentQueries(self.database).get(Reader(TENANT, who), DOC)
            for name, who in names.items()
        }
        return "".join(name for name, document in seen.items() if document is not None)


@pytest.fixture
def doc(database: Database) -> Rightful:
    return Rightful(database)


@pytest.mark.parametrize(
    ("acl", "readers"), [(None, "ab-*"), ((), "*"), ((ANN,), "a*"), ((ANN, BOB), "ab*")]
)
async def test_rights_say_who_reads_from_the_first_moment_on(
    doc: Rightful, acl: Rights, readers: str
) -> None:
    draft = await doc.accept(1, acl)
    assert await doc.readers() == readers
    await doc.store.sync_document(TENANT, DOC, draft.fence, None)
    assert await doc.readers() == readers


async def test_who_is_shut_out_is_so_once_the_change_is_known_and_who_is_let_in_once_it_is_visible(
    doc: Rightful,
) -> None:
    await doc.sync(1, (ANN,))
    draft = await doc.accept(2, (BOB,))
    assert await doc.readers() == "*"
    await doc.store.sync_document(TENANT, DOC, draft.fence, None)
    assert await doc.readers() == "b*"
    draft = await doc.accept(3, None)
    assert await doc.readers() == "b*"
    await doc.store.sync_document(TENANT, DOC, draft.fence, None)
    assert await doc.readers() == "ab-*"


async def test_who_was_shut_out_by_a_version_that_died_stays_so_until_another_one_is_visible(
    doc: Rightful,
) -> None:
    await doc.sync(1, (ANN, BOB))
    await doc.accept(3, (ANN,))
    await doc.bury(3, (ANN,))
    assert await doc.readers() == "a*"
    await doc.sync(2, None)  # it comes late and is older than what died
    assert await doc.readers() == "a*"
    await doc.letters.remove(DeadLetter("l3", TENANT, "chunk", DOC, 3, "", "", 1), forget=True)
    assert await doc.readers() == "a*", "to drop a letter lets nobody in"
    await doc.sync(4, (ANN, BOB))
    assert await doc.readers() == "ab*"


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_version_that_died_before_it_was_accepted_shuts_out_too(
    doc: Rightful, is_known: bool
) -> None:
    if is_known:
        await doc.sync(1, None)
    await doc.bury(2, (ANN,))
    assert await doc.readers() == "a*"


async def test_a_dead_letter_older_than_what_is_under_way_says_nothing_of_rights(
    doc: Rightful,
) -> None:
    await doc.sync(1, (ANN, BOB))
    await doc.accept(3, (ANN,))
    await doc.bury(2, (ANN, BOB))
    assert await doc.readers() == "a*"


async def test_what_died_without_anybody_knowing_its_rights_is_for_nobody(doc: Rightful) -> None:
    event = next_stage_event(
        "livedex.chunked",
        change_event(Changed(tenant_id=TENANT, document_id=DOC, version=1)),
        doc.draft(1, None).fence,
    )
    assert isinstance(event.data, ManifestRef)
    await doc.letters.bury(DeadLetter("l", TENANT, "embed", DOC, 1, "failed", "why", 4), event)
    assert await doc.readers() == "*"


async def test_a_delete_under_way_lets_nobody_in_and_its_tombstone_tells_nobody_else(
    doc: Rightful,
) -> None:
    await doc.sync(1, (ANN, BOB))
    await doc.accept(2, (ANN,))
    await doc.accept(3, None, outcome="deleted")
    assert await doc.readers() == ""
    await doc.store.sync_document(TENANT, DOC, doc.draft(3, None, outcome="deleted").fence, None)
    assert await doc.readers() == ""
    states = [
        await DocumentQueries(doc.database).sync_state(Reader(TENANT, frozenset(who)), DOC, 3)
        for who in ([ANN], [], ["user:eve"])
    ]
    assert states == ["synced", "pending", "pending"]
    await doc.sync(4, None)
    assert await doc.readers() == "ab-*"


async def test_a_document_that_cannot_be_read_has_the_rights_of_its_newest_event(
    doc: Rightful,
) -> None:
    await doc.sync(1, (ANN, BOB))
    await doc.sync(2, (ANN,), outcome="unreadable")
    assert await doc.readers() == "a*"
    view = await DocumentQueries(doc.database).chunks(Reader(TENANT, frozenset([ANN])), DOC)
    assert view is not None and [c.content for c in view.chunks] == ["saffron"]


async def test_an_older_version_that_comes_late_changes_no_rights(doc: Rightful) -> None:
    await doc.sync(5, (ANN,))
    assert await doc.store.save_drafts([doc.draft(4, None)]) == [None]
    assert await doc.readers() == "a*"


async def test_many_documents_of_one_transaction_have_each_its_own_rights(
    database: Database, doc: Rightful
) -> None:
    acls: list[Rights] = [None, (), (ANN,), (ANN, BOB), None, ("a,b", 'c"{}\\', "NULL", "\u00e9")]
    drafts = []
    for n in (3, 1, 0, 5, 4, 2):
        made = doc.draft(1, acls[n])
        drafts.append(
            Draft(
                TENANT,
                DocumentId(f"d{n}"),
                made.fence,
                "synced",
                made.attributes,
                made.accepted_at,
                made.pieces,
            )
        )
    await doc.store.save_drafts(drafts)
    await doc.store.sync_documents(TENANT, [(d.document_id, d.fence) for d in drafts], None)
    page, _ = await DocumentQueries(database).page(Reader(TENANT))
    assert [None if d.acl is None else tuple(d.acl) for d in page] == acls


async def test_who_may_not_read_it_any_more_is_shut_out_before_its_content_is_had(
    doc: Rightful, database: Database
) -> None:
    class Away:
        def access_fingerprint(self, *_: Any) -> str:
            return ""

        @asynccontextmanager
        async def fetch(self, *_: Any) -> AsyncIterator[None]:
            assert await doc.readers() == "a*"
            raise ConnectionError
            yield

    await doc.sync(1, None)
    keeper, cutting = BatchedDraftStore(doc.store), ChunkerConfig()
    more: dict[str, Any] = {
        "store": doc.store,
        "drafts": keeper,
        "blobs": PostgresBlobStore(database),
        "chunker": ThreadChunker(cutting),
        "config": cutting,
        "record_reused": lambda _: None,
        "remote_content": RemoteContent(
            cast("ContentFetcher", Away()), FetchedContentCache(database)
        ),
    }
    event = change_event(
        Changed(tenant_id=TENANT, document_id=DOC, version=2, url="https://x.example/", acl=(ANN,))
    )
    with pytest.raises(ConnectionError):
        await ChunkStage(**more).run(event)
    assert await doc.readers() == "a*"
    late = change_event(
        Changed(tenant_id=TENANT, document_id=DOC, version=0, url="https://x.example/", acl=(BOB,))
    )
    assert await ChunkStage(**more).run(late) == Finished(superseded=True)
