"""For any text: nothing lost, nothing doubled, nothing too long, nothing torn, and an edit stays
where it is.
"""

import itertools
import random
import unicodedata
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.chunking import chunk_text
from livedex.pipeline.model import TextFormat

FORMATS = get_args(TextFormat)
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
PIECES = st.sampled_from(
    [
        "# A\n",
        "## B ##\n",
        "Title\n===\n",
        "Sub\n---\n",
        "```\n",
        "~~~\n",
        "````\n",
        "<!--\n",
        "-->\n",
        "| a | b |\n",
        "- item\n",
        "1. one\n",
        "> quote\n",
        "\n\n",
        "\n",
        " ",
        "\t",
        "    code\n",
        "word ",
        "A sentence. ",
        "Clause, ",
        "一句话。",
        "ไทย",
        FAMILY,
        "e\u0301",
        "\U0001f1e9\U0001f1ea",
        "\u00a0",
        "\u200b",
        "x" * 90,
        "---\n",
    ]
)
texts = st.lists(PIECES | st.text(max_size=12), max_size=60).map("".join)
many = st.tuples(texts, st.integers(1, 12)).map(lambda t: t[0] * t[1])


def squeezed(text: str) -> str:
    return "".join(text.split())


def shown(text: str) -> str:
    """Without white space and without what shows nothing: a chunk of that alone is left out."""
    return "".join(c for c in squeezed(text) if unicodedata.category(c) not in ("Cf", "Cc"))


@pytest.mark.parametrize("format", FORMATS)
@given(text=many, size=st.integers(100, 400))
def test_chunks_are_the_text(format: TextFormat, text: str, size: int) -> None:
    chunks = chunk_text(text, format=format, size=size)
    assert shown("".join(text[c.start : c.end] for c in chunks)) == shown(text)
    assert all(a.end <= b.start for a, b in itertools.pairwise(chunks)), "doubled or out of order"
    for c in chunks:
        content = text[c.start : c.end]
        assert 0 < len(content) <= size and content == content.strip() and shown(content)


@pytest.mark.parametrize("format", FORMATS)
@given(text=many, size=st.integers(100, 400), overlap=st.integers(1, 99))
def test_overlap_repeats_what_stands_before_and_loses_nothing(
    format: TextFormat, text: str, size: int, overlap: int
) -> None:
    plain, chunks = (chunk_text(text, format=format, size=size, overlap=n) for n in (0, overlap))
    assert [c.end for c in chunks] == [c.end for c in plain] and [c.heading for c in chunks] == [
        c.heading for c in plain
    ]
    assert all(p.start - overlap <= c.start <= p.start for c, p in zip(chunks, plain, strict=True))


@pytest.mark.parametrize(
    "unit", [FAMILY, "e\u0301", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "가", "ตั้"]
)
def test_no_character_is_torn(unit: str) -> None:
    text = unit * 700
    for c in chunk_text(text, format="plain", size=140):
        assert text[c.start] == unit[0] and (c.end - c.start) % len(unit) == 0


def paragraph(rng: random.Random) -> str:
    words = [
        "harbour",
        "signal",
        "ledger",
        "copper",
        "meadow",
        "orbit",
        "velvet",
        "anchor",
        "timber",
        "lantern",
        "glacier",
        "saffron",
        "engine",
        "cobalt",
        "river",
    ]
    return (
        f"Note {rng.getrandbits(40):x}. "
        + " ".join(rng.choice(words) + ("." if n % 10 == 9 else "") for n in range(55))
        + "."
    )


def contents(blocks: list[str], format: TextFormat) -> set[str]:
    text = "\n\n".join(blocks)
    return {text[c.start : c.end] for c in chunk_text(text, format=format)}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("seed", range(6))
def test_an_edit_changes_the_chunks_next_to_it_alone(format: TextFormat, seed: int) -> None:
    rng = random.Random(seed)
    blocks = [
        b
        for n in range(300)
        for b in ([f"## Section {n}"] if format == "markdown" and n % 4 == 0 else [])
        + [paragraph(rng)]
    ]
    before, new, at = contents(blocks, format), paragraph(rng), rng.randrange(10, 250)
    at += blocks[at].startswith("##")
    edits = {
        "insert at the top": [new, *blocks],
        "insert": [*blocks[:at], new, *blocks[at:]],
        "change": [*blocks[:at], new, *blocks[at + 1 :]],
        "delete": [*blocks[:at], *blocks[at + 1 :]],
        "append": [*blocks, new],
        "a word": [*blocks[:at], blocks[at].replace(" ", " very ", 2), *blocks[at + 1 :]],
    }
    assert {
        name: n
        for name, edited in edits.items()
        if (n := len(contents(edited, format) - before)) > 4
    } == {}


def test_swapped_sections_cost_nothing() -> None:
    rng = random.Random(1)
    sections = [
        f"## Section {n}\n\n{paragraph(rng)}\n\n{paragraph(rng)}\n\n{paragraph(rng)}"
        for n in range(40)
    ]
    before = contents(sections, "markdown")
    sections[10], sections[20] = sections[20], sections[10]
    assert contents(sections, "markdown") == before


@pytest.mark.parametrize(
    "text",
    [
        "Same again, always the same.\n\n" * 20_000,
        "- item\n" * 30_000,
        "x" * 300_000,
        "[" * 100_000,
        "\n" * 200_000 + "end",
        ("word " * 13 + "\n") * 9_000 + "\n\nend",
        "".join(f"# h{n}\n" for n in range(50_000)),
        "```\n" + "code\n" * 60_000,
        "| a | b |\n" * 40_000,
        "a" + "\u0301" * 20_000,
        "abcd " * 200_000,
        "# a" + " " * 300_000 + "b",
        "<!--\n" + "\n" * 300_000 + "a\n-->",
        "\U0001f1e9\U0001f1ea" * 100_000,
    ],
    ids=range(14),
)
@pytest.mark.parametrize("format", FORMATS)
def test_shapes_that_lead_to_quadratic_time_or_deep_recursion_end(
    text: str, format: TextFormat
) -> None:
    chunks = chunk_text(text, format=format)
    assert squeezed("".join(text[c.start : c.end] for c in chunks)) == squeezed(text)
    assert max(c.end - c.start for c in chunks) <= 1400
