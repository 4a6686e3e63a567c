"""Texts whose parts begin, end or are alike: an edit stays where it is in these too."""

import random

import pytest

from livedex.pipeline.chunking import chunk_text


def some_words(rng: random.Random, count: int) -> str:
    return " ".join(
        rng.choice("harbour signal ledger copper meadow orbit velvet anchor timber lantern".split())
        + f"{rng.getrandbits(12):x}"
        for _ in range(count)
    )


def entries(rng: random.Random) -> list[str]:
    return [
        "This entry of the register was made by the northern harbour office, see "
        f"{some_words(rng, 35)}."
        for _ in range(150)
    ]


def rows_of_a_log(rng: random.Random) -> list[str]:
    return [
        "2024-01-01 INFO org.example.harbour.signal.ledger.copper.meadow.Handler - "
        f"{some_words(rng, 6)}"
        for _ in range(400)
    ]


def notes_repeated(rng: random.Random) -> list[str]:
    note = "See the notes at the end of this handbook for exceptions that apply to contractors."
    return [part for _ in range(100) for part in (some_words(rng, 35) + ".", note)]


def contents(parts: list[str], between: str) -> set[str]:
    text = between.join(parts)
    return {text[c.start : c.end] for c in chunk_text(text, format="plain")}


ALIKE = [(entries, "\n\n"), (rows_of_a_log, "\n"), (notes_repeated, "\n\n")]


@pytest.mark.parametrize(("make", "between"), ALIKE, ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.parametrize("seed", range(8))
def test_an_edit_among_parts_that_are_alike_stays_where_it_is(
    make: object, between: str, seed: int
) -> None:
    assert callable(make)
    rng = random.Random(seed)
    parts = make(rng)
    at, new = rng.randrange(len(parts)), make(rng)[0]
    edits = {
        "insert at the top": [new, *parts],
        "insert": [*parts[:at], new, *parts[at:]],
        "delete": [*parts[:at], *parts[at + 1 :]],
        "repeat": [*parts[:at], parts[at], *parts[at:]],
    }
    before = contents(parts, between)
    assert {
        name: n
        for name, edited in edits.items()
        if (n := len(contents(edited, between) - before)) > 5
    } == {}


def test_one_more_of_many_equal_paragraphs_costs_a_chunk_or_two() -> None:
    paragraph = "The same words again, as in the one before and in the one that follows. " * 5
    few, more = (contents([paragraph] * n, "\n\n") for n in (200, 201))
    assert len(more - few) <= 2


@pytest.mark.parametrize("before", ["", "x", "日"])
@pytest.mark.parametrize("size", [140, 141, 1399])
def test_no_flag_is_torn_in_a_long_row_of_flags(before: str, size: int) -> None:
    rng = random.Random(size)
    text = before + "".join(chr(0x1F1E6 + rng.randrange(26)) for _ in range(6000))
    assert {
        (c.start - len(before)) % 2 for c in chunk_text(text, format="plain", size=size)[1:]
    } == {0}
