"""Fusion: sums of reciprocal ranks and of weighted scores."""

from __future__ import annotations

import pytest

from livedex.pipeline.search.fusion import (
    ChunkPosition,
    reciprocal_rank_fusion,
    weighted_score_fusion,
)
from livedex.pipeline.search.keyword_retriever import KeywordResult
from livedex.pipeline.search.ranking import PassagePositions, RetrieverResults, rank
from livedex.pipeline.search.request import SearchRequest
from livedex.pipeline.store.documents.document_fields import section_id

A, B, C, D = (ChunkPosition(name, 0, number) for number, name in enumerate("abcd"))


def test_reciprocal_ranks_are_summed_from_rank_one_and_ties_go_by_document() -> None:
    assert reciprocal_rank_fusion([[A, B, C], [C, D]], k=60) == [
        (C, pytest.approx(1 / 63 + 1 / 61)),
        (A, pytest.approx(1 / 61)),
        (B, pytest.approx(1 / 62)),
        (D, pytest.approx(1 / 62)),
    ]


@pytest.mark.parametrize(
    ("legs", "order"),
    [([[A, B], []], [A, B]), ([[], [B, A]], [B, A]), ([[], []], []), ([[A]], [A]), ([], [])],
)
def test_an_empty_leg_takes_nothing_away(
    legs: list[list[ChunkPosition]], order: list[ChunkPosition]
) -> None:
    assert [place for place, _ in reciprocal_rank_fusion(legs, k=60)] == order


def test_equal_documents_are_ordered_by_position() -> None:
    late, early = ChunkPosition("a", 9, 1), ChunkPosition("a", 2, 1)
    assert [place for place, _ in reciprocal_rank_fusion([[late], [early]], k=60)] == [early, late]


@pytest.mark.parametrize(("alpha", "order"), [(1.0, [A, B, C]), (0.0, [C, A, B]), (0.5, [C, A, B])])
def test_weights_say_which_leg_counts(alpha: float, order: list[ChunkPosition]) -> None:
    vectors, keywords = {A: 0.9, B: 0.8, C: 0.1}, {C: 1.0}
    assert [
        place for place, _ in weighted_score_fusion([(vectors, alpha), (keywords, 1 - alpha)])
    ] == order


def test_places_found_by_a_leg_without_weight_stay_at_the_end() -> None:
    assert weighted_score_fusion([({A: 0.5}, 0.0), ({B: 1.0}, 1.0)]) == [(B, 1.0), (A, 0.0)]


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_similarities_below_zero_count_as_zero_and_keep_their_order(mode: str) -> None:
    keyword = KeywordResult({5: 2.0}, text_scores={5: 2.0}) if mode == "hybrid" else None
    results = RetrieverResults({1: -0.5, 2: 0.3, 3: -0.1, 4: -0.9}, keyword)
    chunks = {
        number: [ChunkPosition(name, 0, number)]
        for number, name in ((1, "c"), (2, "e"), (3, "d"), (4, "a"), (5, "b"))
    }
    places = PassagePositions(chunks, {found[0]: section_id(()) for found in chunks.values()})
    request = SearchRequest.model_validate(
        {"query": "x", "mode": mode, "fusion": "weighted", "alpha": 1.0}
    )
    ranked = rank(results, places, request, 10)
    assert [(hit.place.document_id, hit.vector_rank) for hit in ranked][:4] == [
        ("e", 1),
        ("d", 2),
        ("c", 3),
        ("a", 4),
    ]
    assert [hit.fused_score for hit in ranked[:4]] == [0.3, 0.0, 0.0, 0.0]
