"""Distances between words, and the pieces that edits leave as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.search.spelling_suggestion import edit_distance, unchanged_pieces

WORDS = st.text("abc", min_size=4, max_size=10)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("", "", 0),
        ("espresso", "espreso", 1),
        ("recieve", "receive", 1),
        ("abcd", "badc", 2),
        ("kitten", "sitting", 3),
        ("abc", "xyz", 3),
    ],
)
def test_known_distances(one: str, other: str, distance: int) -> None:
    assert edit_distance(one, other, 5) == edit_distance(other, one, 5) == distance
    assert edit_distance(one, other, 1) == min(distance, 2)


def _edits(word: str) -> set[str]:
    """Every word at distance 1, made by hand."""
    splits = [(word[:n], word[n:]) for n in range(len(word) + 1)]
    return (
        {a + b[1:] for a, b in splits if b}
        | {a + c + b for a, b in splits for c in "abc"}
        | {a + c + b[1:] for a, b in splits if b for c in "abc"}
        | {a + b[1] + b[0] + b[2:] for a, b in splits if len(b) > 1}
    )


@given(WORDS)
def test_one_edit_is_one_away_and_leaves_a_piece(word: str) -> None:
    pieces = unchanged_pieces(word, 1)
    for other in _edits(word):
        assert edit_distance(word, other, 2) <= 1
        assert any(piece in other for piece in pieces)


@given(WORDS, WORDS)
def test_the_distance_is_symmetric_and_bounded(one: str, other: str) -> None:
    found = edit_distance(one, other, 3)
    assert found == edit_distance(other, one, 3) <= 4
    assert (found == 0) == (one == other)
