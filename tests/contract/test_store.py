"""What the stages rely on in a store: the newest wins, a swap is whole, and an edit writes no more
than it changes.
"""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from livedex.pipeline.errors import ConfigError, RejectedError
from livedex.pipeline.model import Attributes, Reader
from livedex.pipeline.store.drafts import Draft, SyncResult
from tests.support.builders.filled_store import (
    ACME,
    DIMENSIONS,
    NOW,
    OTHER,
    A,
    B,
    StoreHarness,
    expected_chunks,
    fence,
    sections,
    sha,
)


async def test_a_schema_that_is_there_is_found_again(shelf: StoreHarness) -> None:
    again = await asyncio.gather(
        *(shelf.store.ensure_generation("counting", DIMENSIONS) for _ in range(4))
    )
    assert set(again) == {shelf.generation_id}
    others = {
        await shelf.store.ensure_generation("counting", 8),
        await shelf.store.ensure_generation("other", DIMENSIONS),
    }
    assert len(others | {shelf.generation_id}) == 3


@pytest.mark.parametrize("dimensions", [0, -1, 4001, 100_000])
async def test_dimensions_that_cannot_be_indexed_are_refused(
    shelf: StoreHarness, dimensions: int
) -> None:
    with pytest.raises(ConfigError, match="LIVEDEX_DIMENSIONS"):
        await shelf.store.ensure_generation("large", dimensions)


async def test_health_answers(shelf: StoreHarness) -> None:
    await shelf.store.health()


async def test_what_is_known_is_told_by_hash_and_only_to_its_tenant(shelf: StoreHarness) -> None:
    texts = sections(1, 2)
    assert await shelf.store.existing_hashes(ACME, [sha(t) for t in texts]) == {}
    await shelf.put(A, 1, texts)
    known = await shelf.store.existing_hashes(ACME, [sha(t) for t in sections(1, 2, 3)])
    assert known.keys() == {sha(t) for t in texts}
    assert await shelf.store.existing_hashes(OTHER, [sha(t) for t in texts]) == {}
    assert await shelf.store.existing_hashes(ACME, []) == {}


async def test_a_draft_kept_again_changes_nothing_and_shows_nothing(shelf: StoreHarness) -> None:
    draft = shelf.draft(A, fence(1), sections(1, 2, 1))
    await shelf.store.accept(ACME, A, draft.fence, draft.attributes, NOW)
    assert await shelf.store.save_drafts([draft]) == [2]
    known = await shelf.store.existing_hashes(ACME, [sha(t) for t in sections(1, 2)])
    assert [await shelf.store.save_drafts([draft]) for _ in range(3)] == [[0], [0], [0]]
    assert await shelf.store.existing_hashes(ACME, [sha(t) for t in sections(1, 2)]) == known
    missing = await shelf.store.missing_vectors(ACME, A, draft.fence, shelf.generation_id)
    assert missing is not None and sorted(text for _, text in missing) == sections(1, 2)
    assert await shelf.visible_document(A) is None
    assert await shelf.found("only1", "keyword") == []


async def test_a_vector_that_is_there_stays(shelf: StoreHarness) -> None:
    await shelf.put(A, 1, sections(1, 2))
    known = await shelf.store.existing_hashes(ACME, [sha(sections(1)[0])])
    passage = known[sha(sections(1)[0])]
    await shelf.store.upsert_vectors(
        ACME, shelf.generation_id, {passage: -shelf.embedder.vector(sections(1)[0])}
    )
    assert await shelf.found("only1", "vector", min_score=0.2) == [A]


async def test_a_vector_of_a_passage_that_is_gone_is_left_out(shelf: StoreHarness) -> None:
    vector = np.eye(1, DIMENSIONS, dtype=np.float32)[0]
    await shelf.store.upsert_vectors(ACME, shelf.generation_id, {10**12: vector})
    await shelf.store.upsert_vectors(ACME, shelf.generation_id, {})


async def test_shorter_empty_and_longer_versions_leave_nothing_of_the_old_ones(
    shelf: StoreHarness,
) -> None:
    for version, numbers in enumerate(
        [range(10), range(3), (), range(20, 25), (24, 20, 9)], start=1
    ):
        texts = sections(*numbers)
        done = await shelf.put(A, version, texts, outcome="synced" if texts else "empty")
        seen = await shelf.visible_document(A)
        assert seen is not None and (done.current, done.chunks, seen.chunks) == (
            True,
            len(texts),
            expected_chunks(texts),
        )
        for n in (0, 2, 9, 20, 24):
            assert [await shelf.found(f"only{n}", mode) for mode in ("keyword", "vector")] == [
                [A] if n in numbers else []
            ] * 2


async def test_equal_paragraphs_have_places_of_their_own_and_one_price(shelf: StoreHarness) -> None:
    (same, between) = sections(1, 2)
    thrice, twice = [same, between, same, same], [same, same, between]
    await shelf.put(A, 1, thrice)
    first = await shelf.visible_document(A)
    await shelf.put(A, 2, twice)
    second = await shelf.visible_document(A)
    assert first is not None and second is not None
    assert (first.chunks, second.chunks) == (expected_chunks(thrice), expected_chunks(twice))
    assert sorted(shelf.embedder.texts) == [same, between]


async def test_an_edit_pays_and_writes_for_what_it_changed(shelf: StoreHarness) -> None:
    numbers = list(range(100))
    await shelf.put(A, 1, sections(*numbers))
    inserted = [100, *numbers]
    swapped = list(inserted)
    swapped[10], swapped[20] = swapped[20], swapped[10]
    edited = [*swapped[:50], 101, *swapped[51:]]
    for version, (now, price, most_rows) in enumerate(
        [(inserted, 1, 1), (swapped, 0, 2), (edited, 1, 1)], start=2
    ):
        before = len(shelf.embedder.texts)
        done = await shelf.put(A, version, sections(*now))
        seen = await shelf.visible_document(A)
        assert seen is not None and seen.chunks == expected_chunks(sections(*now))
        assert len(shelf.embedder.texts) - before == price
        assert done.inserted <= most_rows and done.deleted <= most_rows and done.updated <= 1


async def test_headings_change_without_a_price(shelf: StoreHarness) -> None:
    await shelf.put(A, 1, sections(1, 2), heading=("Old", 'of "quotes", {braces}'))
    await shelf.put(A, 2, sections(1, 2), heading=("New",))
    seen = await shelf.visible_document(A)
    assert seen is not None and seen.chunks == expected_chunks(sections(1, 2), ("New",))
    assert len(shelf.embedder.texts) == 2


async def test_metadata_alone_is_live_at_once_and_costs_nothing(shelf: StoreHarness) -> None:
    await shelf.put(A, 1, sections(1, 2), tags=["public"], acl=["all"])
    done = await shelf.put(A, 2, sections(1, 2), tags=["hr-only"])
    seen = await shelf.visible_document(A)
    assert seen is not None and seen.metadata == {"tags": ["hr-only"]}
    assert (done.inserted, done.deleted, done.updated, len(shelf.embedder.texts)) == (0, 0, 0, 2)
    assert await shelf.found("only1", "hybrid", where={"tags": "public"}) == []
    assert await shelf.found("only1", "hybrid", where={"tags": "hr-only"}) == [A]


async def test_twelve_thousand_chunks_are_one_document(shelf: StoreHarness) -> None:
    texts = sections(*range(12_000))
    assert (await shelf.put(A, 1, texts)).inserted == 12_000
    seen = await shelf.visible_document(A)
    assert seen is not None and seen.chunks == expected_chunks(texts)
    assert (await shelf.put(A, 2, texts[:1])).deleted == 11_999


async def test_tenants_share_neither_rows_nor_fate(shelf: StoreHarness) -> None:
    texts = sections(1, 2)
    for tenant in (ACME, OTHER):
        await shelf.put(A, 1, texts, tenant=tenant)
    assert len(shelf.embedder.texts) == 4, "a text of one tenant was taken for that of another"
    await shelf.store.delete_document(ACME, A, fence(2, deleted=True))
    assert await shelf.visible_document(A) is None
    seen = await shelf.visible_document(A, OTHER)
    assert seen is not None and seen.contents == texts
    assert [
        await shelf.found("only1", mode, tenant)
        for mode in ("keyword", "vector")
        for tenant in (ACME, OTHER)
    ] == [[], [A], [], [A]]


async def test_a_version_whose_embedding_failed_is_no_known_version(shelf: StoreHarness) -> None:
    draft = shelf.draft(A, fence(1), sections(1, 2))
    await shelf.store.accept(ACME, A, draft.fence, draft.attributes, NOW)
    await shelf.store.save_drafts([draft])  # and then the embedder fails
    assert await shelf.store.accept(ACME, A, draft.fence, draft.attributes, NOW), (
        "taken for unchanged"
    )
    assert (await shelf.put(A, 1, sections(1, 2))).current
    assert await shelf.found("only1", "vector") == [A]
    assert not await shelf.store.accept(ACME, A, draft.fence, draft.attributes, NOW), "it has ended"


async def test_a_late_version_changes_nothing_at_any_step(shelf: StoreHarness) -> None:
    old, new = shelf.draft(A, fence(1), sections(1)), shelf.draft(A, fence(2), sections(2))
    await shelf.prepare(old)
    await shelf.prepare(new)
    assert not await shelf.store.accept(ACME, A, old.fence, old.attributes, NOW)
    assert await shelf.store.missing_vectors(ACME, A, old.fence, shelf.generation_id) is None
    assert (await shelf.sync(new)).current
    assert not (await shelf.sync(old)).current
    assert await shelf.sync(new) == SyncResult(current=True), (
        "a repeated sync writes nothing, and is told again"
    )
    seen = await shelf.visible_document(A)
    assert seen is not None and (seen.version, seen.contents) == (2, sections(2))


async def test_of_equal_versions_a_delete_wins_and_else_the_greater_digest(
    shelf: StoreHarness,
) -> None:
    less, greater = (
        shelf.draft(A, fence(1, digest=1), sections(1)),
        shelf.draft(A, fence(1, digest=2), sections(2)),
    )
    await shelf.prepare(less)
    await shelf.prepare(greater)
    assert (await shelf.sync(greater)).current
    await shelf.store.save_drafts([less])  # by a worker that began before the other one ended
    assert not (await shelf.sync(less)).current
    assert (await shelf.store.delete_document(ACME, A, fence(1, deleted=True))).current
    assert not await shelf.store.accept(ACME, A, greater.fence, greater.attributes, NOW)
    assert await shelf.visible_document(A) is None


async def test_a_version_without_manifest_is_rejected_unless_it_is_past(
    shelf: StoreHarness,
) -> None:
    with pytest.raises(RejectedError, match="no manifest"):
        await shelf.store.sync_document(ACME, A, fence(1), shelf.generation_id)
    await shelf.put(A, 2, sections(1))
    assert not (await shelf.store.sync_document(ACME, A, fence(1), shelf.generation_id)).current


async def test_a_delete_leaves_a_tombstone_that_late_content_cannot_pass(
    shelf: StoreHarness,
) -> None:
    await shelf.put(A, 1, sections(1))
    late = shelf.draft(A, fence(2), sections(2))
    await shelf.store.delete_document(ACME, A, fence(3, deleted=True))
    assert not await shelf.store.accept(ACME, A, late.fence, late.attributes, NOW)
    await shelf.store.save_drafts([late])
    assert not (await shelf.sync(late)).current
    assert (
        await shelf.visible_document(A) is None
        and await shelf.found("only1", "keyword") == await shelf.found("only2", "vector") == []
    )
    assert (await shelf.put(A, 4, sections(1))).current
    seen = await shelf.visible_document(A)
    assert seen is not None and seen.contents == sections(1) and shelf.embedder.texts == sections(1)


async def test_a_delete_of_what_was_never_there_leaves_a_tombstone_too(shelf: StoreHarness) -> None:
    assert (await shelf.store.delete_document(ACME, A, fence(5, deleted=True))).current
    assert not (await shelf.store.delete_document(ACME, A, fence(5, deleted=True))).current
    late = shelf.draft(A, fence(4), sections(1))
    assert not await shelf.store.accept(ACME, A, late.fence, late.attributes, NOW)
    assert await shelf.visible_document(A) is None
    assert (await shelf.put(A, 6, sections(1))).current


async def test_an_unreadable_version_leaves_what_is_visible(shelf: StoreHarness) -> None:
    await shelf.put(A, 1, sections(1, 2), team="people")
    draft = Draft(
        ACME, A, fence(2), "unreadable", Attributes(), NOW, keep=True, error="make it readable"
    )
    await shelf.prepare(draft)
    assert (await shelf.sync(draft)).current
    seen = await shelf.visible_document(A)
    assert seen is not None and (seen.version, seen.state, seen.metadata) == (
        2,
        "unreadable",
        {"team": "people"},
    )
    assert seen.contents == sections(1, 2) and await shelf.found("only1", "hybrid") == [A]


async def test_documents_that_share_texts_in_opposite_order_do_not_wait_for_each_other_in_a_circle(
    shelf: StoreHarness,
) -> None:
    for turn in range(1, 26):
        texts = sections(*range(turn * 1000, turn * 1000 + 60))
        drafts = [
            shelf.draft(document, fence(turn), order)
            for document, order in ((A, texts), (B, texts[::-1]), (A, texts))
        ]
        await asyncio.gather(*map(shelf.prepare, drafts))
        await asyncio.gather(*map(shelf.sync, drafts))
        first, second = await shelf.visible_document(A), await shelf.visible_document(B)
        assert first is not None and second is not None
        assert (first.contents, second.contents) == (texts, texts[::-1])


async def test_versions_at_the_same_time_end_as_the_newest(shelf: StoreHarness) -> None:
    drafts = [
        shelf.draft(A, fence(version), sections(*range(version, version + 30)))
        for version in range(1, 9)
    ]
    await asyncio.gather(*map(shelf.prepare, drafts))
    await asyncio.gather(*(shelf.sync(draft) for draft in drafts))
    seen = await shelf.visible_document(A)
    assert seen is not None and (seen.version, seen.contents) == (8, sections(*range(8, 38)))


async def test_readers_see_the_old_version_or_the_new_one(shelf: StoreHarness) -> None:
    sizes = {version: 60 - version for version in range(1, 21)}
    await shelf.put(A, 1, sections(*range(sizes[1])))
    ended = asyncio.Event()

    async def read() -> int:
        reads = 0
        while not ended.is_set():
            view = await shelf.documents.chunks(Reader(ACME), A)
            assert (
                view is not None
                and view.version is not None
                and len(view.chunks) == sizes[view.version]
            )
            reads += 1
        return reads

    readers = [asyncio.create_task(read()) for _ in range(2)]
    for version in range(2, 21):
        await shelf.put(
            A, version, sections(*range(1000 * version, 1000 * version + sizes[version]))
        )
    ended.set()
    assert min(await asyncio.gather(*readers)) > 0


async def test_rows_are_numbered_anew_once_there_is_no_room_between_two(
    shelf: StoreHarness,
) -> None:
    texts = sections(1, 2)
    await shelf.put(A, 1, texts)
    anew = 0
    for version in range(2, 42):
        texts.insert(-1, *sections(version + 100))
        done = await shelf.put(A, version, texts)
        anew += done.deleted > 0
        seen = await shelf.visible_document(A)
        assert seen is not None and seen.contents == texts
    assert anew > 0, "the room between two rows was never used up"
