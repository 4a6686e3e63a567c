"""Citation markers: only those of the answer count, and only those that name a source."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.ask.markers import check_markers, without_markers
from livedex.pipeline.ask.sentences import split_sentences

PIECES = st.lists(
    st.sampled_from(
        [
            "[",
            "]",
            "［",
            "］",
            "【",
            "】",
            "1",
            "２",
            "٣",
            "17",
            ",",
            " ",
            "-",
            "(",
            ")",
            "a",
            ". ",
            "\n",
        ]
    ),
    max_size=30,
).map("".join)
_ANY_MARKER = re.compile(r"\[[\s\d,;.:–—-]*\d[\s\d,;.:–—-]*\]")


@given(PIECES)
def test_the_text_of_a_source_holds_no_marker(text: str) -> None:
    cleaned = without_markers(text)
    assert not check_markers(cleaned, 10**6).numbers
    assert not _ANY_MARKER.search(unicodedata.normalize("NFKC", cleaned))
    assert len(cleaned) == len(text)


@given(PIECES, st.integers(0, 20))
def test_every_marker_that_is_left_names_a_source(text: str, sources: int) -> None:
    checked = check_markers(text, sources)
    numbers = [int(n) for n in re.findall(r"\[(\d+)\]", checked.text)]
    assert all(1 <= n <= sources for n in numbers)
    assert tuple(dict.fromkeys(numbers)) == checked.numbers


@pytest.mark.parametrize(
    ("text", "cleaned", "numbers", "dropped"),
    [
        ("Yes [1].", "Yes [1].", (1,), 0),
        ("Yes [1, 2] and [3][9].", "Yes [1][2] and [3].", (1, 2, 3), 1),
        ("No [0] [99].", "No.", (), 2),
        ("a[1] list[2]", "a[1] list[2]", (1, 2), 0),
        ("[note] [x1]", "[note] [x1]", (), 0),
    ],
)
def test_examples(text: str, cleaned: str, numbers: tuple[int, ...], dropped: int) -> None:
    assert check_markers(text, 3) == (cleaned, numbers, dropped)


@given(st.text(st.sampled_from("aB.!? \n-#1)”"), max_size=200))
def test_sentences_stand_where_they_say(text: str) -> None:
    found = split_sentences(text)
    assert all(text[each.start : each.end] == each.text for each in found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    words = "".join(c for c in text if c.isalpha())
    assert "".join(c for each in found for c in each.text if c.isalpha()) == words


def test_sentences_of_prose_and_lists() -> None:
    text = "Dr. Smith came. He left, e.g. by car!\n- milk\n2) eggs\n# Title\n这是。那是。"
    assert [each.text for each in split_sentences(text)] == [
        "Dr. Smith came.",
        "He left, e.g. by car!",
        "milk",
        "eggs",
        "Title",
        "这是。",
        "那是。",
    ]
