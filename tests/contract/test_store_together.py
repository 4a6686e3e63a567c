"""Many documents in one transaction end as they would one by one, and nobody waits for another in
a circle.
"""

from __future__ import annotations

import asyncio
import random

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import DocumentId
from livedex.pipeline.store.database import open_database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from tests.support.builders.filled_store import (
    ACME,
    DIMENSIONS,
    StoreHarness,
    expected_chunks,
    fence,
    sections,
)

NAMES = [DocumentId(f"note{n}.md") for n in range(8)]


async def test_documents_swapped_together_are_what_each_would_be_alone(shelf: StoreHarness) -> None:
    await shelf.put(NAMES[0], 1, sections(1, 2, 3), heading=("Old",))
    await shelf.put(NAMES[1], 1, sections(1, 2, 3))
    drafts = [
        shelf.draft(NAMES[0], fence(2), sections(0, 1, 3), heading=("Ä", "New"), tags=["a"]),
        shelf.draft(NAMES[1], fence(2), [], outcome="deleted"),
        shelf.draft(NAMES[2], fence(2), sections(*range(9)), heading=("A", "B", "C")),
        shelf.draft(NAMES[3], fence(2), [], outcome="empty"),
        shelf.draft(NAMES[4], fence(2), sections(7, 7, 7)),
    ]
    for draft in drafts:
        await shelf.prepare(draft)
    done = await shelf.store.sync_documents(
        ACME, [(d.document_id, d.fence) for d in drafts], shelf.generation_id
    )
    assert [
        (d.current, d.chunks, d.inserted, d.deleted, d.updated)
        for d in done
        if not isinstance(d, Exception)
    ] == [
        (True, 3, 1, 1, 2),
        (True, 0, 0, 3, 0),
        (True, 9, 9, 0, 0),
        (True, 0, 0, 0, 0),
        (True, 3, 3, 0, 0),
    ]
    seen = [await shelf.visible_document(name) for name in NAMES[:5]]
    assert [s and s.chunks for s in seen] == [
        expected_chunks(sections(0, 1, 3), ("Ä", "New")),
        None,
        expected_chunks(sections(*range(9)), ("A", "B", "C")),
        [],
        expected_chunks(sections(7, 7, 7)),
    ]
    assert seen[0] is not None and seen[0].metadata == {"tags": ["a"]}


async def test_what_is_wrong_with_one_is_told_of_it_alone(shelf: StoreHarness) -> None:
    await shelf.put(NAMES[2], 3, sections(5))
    good = shelf.draft(NAMES[0], fence(1), sections(1))
    late = shelf.draft(NAMES[2], fence(2), sections(2))
    await shelf.prepare(good)
    done = await shelf.store.sync_documents(
        ACME,
        [(NAMES[1], fence(1)), (NAMES[0], good.fence), (NAMES[2], late.fence)],
        shelf.generation_id,
    )
    assert isinstance(done[0], RejectedError) and done[0].reason == "no_manifest"
    assert [not isinstance(d, Exception) and d.current for d in done[1:]] == [True, False]
    assert await shelf.found("only1", "keyword") == [NAMES[0]] and await shelf.found(
        "only5", "keyword"
    ) == [NAMES[2]]


async def test_drafts_kept_together_count_a_shared_text_once_and_leave_out_what_is_late(
    shelf: StoreHarness,
) -> None:
    await shelf.put(NAMES[2], 3, sections(5))
    drafts = [
        shelf.draft(NAMES[n], fence(2), sections(*texts))
        for n, texts in ((1, (1, 2)), (0, (2, 3, 5)), (2, (4,)))
    ]
    assert await shelf.store.save_drafts(drafts) == [2, 1, None]
    missing = await shelf.store.missing_vectors_batch(
        ACME, [(d.document_id, d.fence) for d in drafts], shelf.generation_id
    )
    assert [m and sorted(text for _, text in m) for m in missing] == [
        sections(1, 2),
        sections(2, 3),
        None,
    ]


async def test_transactions_with_many_documents_in_any_order_never_wait_in_a_circle(
    owner_url: str,
) -> None:
    """A deadlock would be an error here: nothing tries again."""
    choices = random.Random(5)
    async with open_database(owner_url, max_size=6) as database:
        store = PgVectorStore(database)
        shelf = StoreHarness(store, database, await store.ensure_generation("counting", DIMENSIONS))

        async def work(version: int) -> None:
            names = choices.sample(NAMES, len(NAMES))
            drafts = [
                shelf.draft(name, fence(version), sections(*choices.sample(range(12), 6)))
                for name in names
            ]
            await store.save_drafts(drafts)
            await store.sync_documents(
                ACME, [(d.document_id, d.fence) for d in drafts], shelf.generation_id
            )

        await asyncio.gather(*(work(version) for version in range(1, 25)))
        assert [
            s and s.version for s in [await shelf.visible_document(name) for name in NAMES]
        ] == [24] * len(NAMES)
