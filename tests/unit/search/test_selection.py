"""The steps between ranking and hits, against reference implementations of a few lines."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.search.diversity import maximal_marginal_relevance, nucleus_size
from livedex.pipeline.search.facets import count_facets
from livedex.pipeline.search.fusion import ChunkPosition, scaled
from livedex.pipeline.search.grouping import (
    collapse_passages,
    group_by_document,
    limit_per_document,
)
from livedex.pipeline.search.highlights import FRAGMENT_CHARACTERS, fragments, matching_spans
from livedex.pipeline.search.paging import read_cursor, write_cursor
from livedex.pipeline.search.ranking import RankedChunk
from livedex.pipeline.search.recency import rank_by_recency
from livedex.pipeline.search.request import Recency, SearchRequest

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SCORES = st.lists(st.floats(0, 1), max_size=20).map(lambda found: sorted(found, reverse=True))


def chunk(document: int, position: int, passage: int, score: float = 1.0) -> RankedChunk:
    return RankedChunk(
        ChunkPosition(f"d{document}", position, document), score, None, 1, passage_id=passage
    )


CHUNKS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 5)), unique_by=lambda c: c[:2]
).map(lambda found: [chunk(d, p, n, 1 / k) for k, (d, p, n) in enumerate(found, 1)])


@given(SCORES, st.integers(0, 9), st.floats(0, 1), st.integers(0, 25))
def test_mmr_equals_the_definition(
    relevance: list[float], seed: int, weight: float, most: int
) -> None:
    vectors = np.random.default_rng(seed).normal(size=(len(relevance), 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) if len(relevance) else 1
    expected: list[int] = []
    left = list(range(len(relevance)))
    while left and len(expected) < most:
        gains = {
            n: weight * relevance[n]
            - (1 - weight) * max((float(vectors[n] @ vectors[m]) for m in expected), default=0.0)
            for n in left
        }
        best = max(left, key=lambda n: (round(gains[n], 5), -n))
        expected.append(best)
        left.remove(best)
    found = maximal_marginal_relevance(relevance, vectors, weight=weight, most=most)
    assert len(found) == len(set(found)) == len(expected)
    for a, b in zip(found, expected, strict=True):
        if a != b:  # equal but for rounding
            break
    else:
        assert found == expected


@given(SCORES.filter(bool))
def test_mmr_with_weight_1_keeps_the_order(relevance: list[float]) -> None:
    vectors = np.ones((len(relevance), 2), dtype=np.float32)
    found = maximal_marginal_relevance(relevance, vectors, weight=1.0, most=len(relevance))
    assert found == list(range(len(relevance)))


@given(SCORES, st.floats(0, 1))
def test_top_p_is_the_least_prefix_that_reaches_the_share(scores: list[float], p: float) -> None:
    size = nucleus_size(scores, p)
    total = sum(map(math.exp, scores))
    shares = [math.exp(score) / total for score in scores]
    assert size == 0 if not scores else 1 <= size <= len(scores)
    assert sum(shares[:size]) >= p - 1e-9 or size == len(scores)
    assert size <= 1 or sum(shares[: size - 1]) < p + 1e-9


@given(CHUNKS, st.integers(1, 3))
def test_documents_are_limited_and_grouped_in_order(chunks: list[RankedChunk], most: int) -> None:
    limited = limit_per_document(chunks, most)
    counts = Counter(each.place.doc_id for each in chunks)
    assert Counter(each.place.doc_id for each in limited) == {
        doc_id: min(most, n) for doc_id, n in counts.items()
    }
    assert limited == [each for each in chunks if each in limited]
    groups = group_by_document(chunks, most)
    assert [each for group in groups for each in group] == sorted(
        limited,
        key=lambda each: next(
            n for n, c in enumerate(chunks) if c.place.doc_id == each.place.doc_id
        ),
    )


@given(CHUNKS)
def test_a_passage_is_collapsed_into_its_best_place(chunks: list[RankedChunk]) -> None:
    found = collapse_passages(chunks)
    assert [each.passage_id for each in found] == list(
        dict.fromkeys(each.passage_id for each in chunks)
    )
    for each in found:
        documents = {c.place.document_id for c in chunks if c.passage_id == each.passage_id}
        assert {each.place.document_id, *each.also_in} == documents
        assert each.place.document_id not in each.also_in


@given(CHUNKS, st.floats(0, 1), st.floats(0.1, 1_000), st.lists(st.integers(-5, 9_000)))
def test_recency_equals_the_definition(
    chunks: list[RankedChunk], weight: float, half_life: float, ages: list[int]
) -> None:
    times = {n: NOW - timedelta(days=age) for n, age in enumerate(ages)}
    recency = Recency(half_life_days=half_life, weight=weight)
    relevance = scaled({each.place: each.fused_score for each in chunks})
    expected = {}
    for each in chunks:
        time = times.get(each.place.doc_id)
        bonus = 0.0 if time is None else 0.5 ** max(0, (NOW - time).days / half_life)
        expected[each.place] = (1 - weight) * relevance[each.place] + weight * bonus
    found = rank_by_recency(chunks, times, recency, NOW)
    assert {each.place: each.fused_score for each in found} == pytest.approx(expected)
    assert [each.fused_score for each in found] == pytest.approx(
        sorted(expected.values(), reverse=True)
    )


VALUES = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b", ""])


@given(
    st.lists(st.fixed_dictionaries({"kind": VALUES | st.lists(VALUES), "n": VALUES}), max_size=9)
)
def test_facets_count_documents(metadata: list[dict[str, object]]) -> None:
    documents = [
        {"collection": f"c{n % 2}", "source": "", "mime_type": None, "metadata": each}
        for n, each in enumerate(metadata)
    ]
    found = count_facets(["kind", "collection", "missing", "mime_type"], documents)
    assert found["missing"] == {} and found["mime_type"] == {}
    assert found["collection"] == dict(Counter(f"c{n % 2}" for n in range(len(metadata))))

    def shown(value: object) -> str:
        names = {True: "true", False: "false"}
        return names[value] if isinstance(value, bool) else str(value)

    expected: Counter[str] = Counter()
    for each in metadata:
        value = each["kind"]
        values = value if isinstance(value, list) else [value]
        expected.update({shown(v) for v in values if v is not None})
    assert found["kind"] == dict(expected)
    assert list(found["kind"].values()) == sorted(found["kind"].values(), reverse=True)


@given(CHUNKS, st.integers(1, 5))
def test_pages_hold_every_chunk_once_in_order(chunks: list[RankedChunk], limit: int) -> None:
    request = SearchRequest(query="a", limit=limit, cursor="")
    pages, rest = [chunks[:limit]], chunks[limit:]
    while (cursor := write_cursor(request, rest)) is not None:
        again = SearchRequest(query="a", limit=limit, cursor=cursor)
        left = read_cursor(again, cursor)
        pages.append(left[:limit])
        rest = left[limit:]
    assert [each for page in pages for each in page] == chunks


@pytest.mark.parametrize("cursor", ["x", "AAAA", "e" * 500, "\u00fc", "eJyLjgUAARUAuQ", "  "])
def test_what_is_no_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(ValueError, match="next_cursor"):
        read_cursor(SearchRequest(query="a"), cursor)


def test_a_cursor_of_another_search_is_refused() -> None:
    cursor = write_cursor(SearchRequest(query="a", cursor=""), [chunk(1, 0, 1)])
    assert cursor is not None
    with pytest.raises(ValueError, match="of this search"):
        read_cursor(SearchRequest(query="b", cursor=cursor), cursor)


@given(st.text(st.sampled_from("ab \n"), max_size=2_000))
def test_fragments_lie_in_the_content_and_hold_their_matches(content: str) -> None:
    spans = matching_spans(content, "a", {"a"}, {"a": frozenset(["a"])})
    assert all(content[low:high].strip("b") for low, high in spans)
    found = fragments(content, spans)
    assert found
    for each in found:
        assert content[each["start"] :].startswith(each["text"])
        assert len(each["text"]) <= 3 * FRAGMENT_CHARACTERS + 6
        assert all(each["text"][low:high] == "a" for low, high in each["spans"])
    assert not spans or any(each["spans"] for each in found)
