"""Versions whose manifest is at hand end as those whose manifest is kept do."""

from __future__ import annotations

import asyncpg
import pytest

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.store.drafts import Draft, PreparedVersion
from livedex.pipeline.store.postgres.statements import sql
from tests.support.builders.filled_store import (
    ACME,
    A,
    B,
    StoreHarness,
    expected_chunks,
    fence,
    sections,
)


async def prepared(shelf: StoreHarness, draft: Draft) -> PreparedVersion:
    """A version whose vectors are there."""
    found = await shelf.store.prepare(draft, shelf.generation_id)
    assert found is not None
    if found.missing:
        vectors = await shelf.embedder.embed([text for _, text in found.missing], kind="document")
        await shelf.store.upsert_vectors(
            ACME,
            shelf.generation_id,
            {number: v for (number, _), v in zip(found.missing, vectors, strict=True)},
        )
    return found


async def test_only_what_lacks_a_vector_is_missing_and_all_of_it(shelf: StoreHarness) -> None:
    await shelf.put(A, 1, sections(1, 2))
    # and then the embedder fails
    await shelf.store.save_drafts([shelf.draft(B, fence(1), sections(3))])
    found = await prepared(shelf, shelf.draft(A, fence(2), sections(2, 3, 4, 2, 4), heading=("h",)))
    assert sorted(text for _, text in found.missing) == sections(3, 4)
    assert found.new == 1
    assert sorted(shelf.embedder.texts) == sections(1, 2, 3, 4)
    assert (await shelf.visible_document(A)).contents == sections(1, 2)  # type: ignore[union-attr]
    done = await shelf.store.sync_prepared(found)
    assert (done.current, done.chunks) == (True, 5)
    seen = await shelf.visible_document(A)
    assert seen is not None and (seen.version, seen.chunks) == (
        2,
        expected_chunks(sections(2, 3, 4, 2, 4), ("h",)),
    )
    assert await shelf.found("only4", "vector", min_score=0.2) == [A]


async def test_a_version_that_a_newer_one_overtook_is_neither_prepared_nor_shown(
    shelf: StoreHarness,
) -> None:
    late = await prepared(shelf, shelf.draft(A, fence(2), sections(2)))
    await shelf.put(A, 3, sections(3))
    assert (await shelf.store.sync_prepared(late)).current is False
    assert (
        await shelf.store.prepare(shelf.draft(A, fence(2), sections(2)), shelf.generation_id)
        is None
    )
    assert (
        await shelf.store.prepare(shelf.draft(A, fence(3), sections(3)), shelf.generation_id)
        is None
    )
    seen = await shelf.visible_document(A)
    assert seen is not None and (seen.version, seen.contents) == (3, sections(3))


async def test_a_passage_that_was_to_be_cleared_away_stays_for_a_version_that_shows_it(
    shelf: StoreHarness, owner: asyncpg.Connection
) -> None:
    await shelf.put(A, 1, sections(1, 2))
    await shelf.put(A, 2, sections(2))
    await owner.execute(sql("mark_unused"), ACME, -1.0)
    assert await owner.fetchval("select count(*) from unused_passages") == 1
    found = await prepared(shelf, shelf.draft(B, fence(1), sections(1)))
    await owner.execute(sql("clear_unused"), ACME, -1.0)
    assert (await shelf.store.sync_prepared(found)).current
    assert sorted(shelf.embedder.texts) == sections(1, 2), "nothing was embedded again"


async def test_a_version_whose_passage_is_gone_is_to_be_prepared_again(
    shelf: StoreHarness, owner: asyncpg.Connection
) -> None:
    draft = shelf.draft(A, fence(1), sections(1, 2))
    found = await prepared(shelf, draft)
    await owner.execute("delete from passages where hash = $1", draft.pieces[0].hash)
    with pytest.raises(RetryableError):
        await shelf.store.sync_prepared(found)
    assert await shelf.visible_document(A) is None
    assert (await shelf.store.sync_prepared(await prepared(shelf, draft))).current
    seen = await shelf.visible_document(A)
    assert seen is not None and seen.contents == sections(1, 2)
