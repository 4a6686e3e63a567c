"""The swap of chunk rows: right for any two manifests, and small for small edits."""

from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.model import ManifestEntry, PassageId
from livedex.pipeline.store.documents.chunk_diff import (
    POSITION_STEP,
    ChunkDiff,
    ChunkRow,
    diff_chunks,
)


def entries(*passages: int) -> tuple[ManifestEntry, ...]:
    return tuple(
        ManifestEntry(PassageId(p), 0 if i == 0 else 2, 100) for i, p in enumerate(passages)
    )


def rows(*passages: int) -> list[ChunkRow]:
    return [ChunkRow(POSITION_STEP * (i + 1), e) for i, e in enumerate(entries(*passages))]


def applied(old: list[ChunkRow], swap: ChunkDiff) -> list[ChunkRow]:
    """What the store holds after the swap; fails as the database would."""
    stored = {row.position: row for row in old}
    for position in swap.delete:
        del stored[position]
    for row in swap.insert:
        assert row.position not in stored, "two rows at one position"
        stored[row.position] = row
    for row in swap.update:
        assert row.position in stored and stored[row.position] != row, (
            "an update that changes nothing"
        )
        stored[row.position] = row
    return [stored[position] for position in sorted(stored)]


manifests = st.lists(st.integers(1, 8), max_size=24)


@given(st.lists(manifests, min_size=1, max_size=6))
def test_any_sequence_of_manifests_is_reached_exactly(versions: list[list[int]]) -> None:
    stored: list[ChunkRow] = []
    for version in versions:
        wanted = entries(*version)
        stored = applied(stored, diff_chunks(stored, wanted))
        assert tuple(row.entry for row in stored) == wanted


@given(manifests)
def test_the_same_manifest_again_writes_nothing(version: list[int]) -> None:
    assert diff_chunks(rows(*version), entries(*version)) == ChunkDiff()


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=60, unique=True), st.data())
def test_one_insert_touches_one_row_and_at_most_the_gap_of_the_first(
    version: list[int], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(version)))
    swap = diff_chunks(rows(*version), entries(*version[:at], 5000, *version[at:]))
    assert (len(swap.insert), swap.delete) == (1, []) and len(swap.update) <= 1


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=60, unique=True), st.data())
def test_one_moved_passage_moves_one_row(version: list[int], data: st.DataObject) -> None:
    moved = list(version)
    passage = moved.pop(data.draw(st.integers(0, len(moved) - 1)))
    moved.insert(data.draw(st.integers(0, len(moved))), passage)
    swap = diff_chunks(rows(*version), entries(*moved))
    assert len(swap.insert) <= 1 and len(swap.delete) <= 1


def test_a_passage_that_stands_three_times_keeps_three_rows() -> None:
    assert len(applied(rows(1, 1, 1, 2), diff_chunks(rows(1, 1, 1, 2), entries(1, 1, 2)))) == 3


def test_a_hundred_inserts_at_one_place_find_room() -> None:
    stored = rows(1, 2)
    version = [1, 2]
    for passage in range(10, 110):
        version.insert(1, passage)
        stored = applied(stored, diff_chunks(stored, entries(*version)))
    assert [row.entry.passage_id for row in stored] == version
