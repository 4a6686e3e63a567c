"""Where texts of other kinds than prose are cut: between rows, lines and marks, never inside a
word that could stay whole.
"""

from __future__ import annotations

import json
import random
import re

import pytest

from livedex.pipeline.stages.document_chunker import ChunkedDocument, ChunkerConfig, chunk_document

RANDOM = random.Random(7)
WORDS = (
    "alpha beta gamma getUserName order_id user@example.org https://example.org/a/b?c=d&e=f "
    "2024-05-01 12:30 größer Straße"
).split()


def cut(text: str, name: str) -> ChunkedDocument:
    found = chunk_document(text.encode(), name, None, ChunkerConfig())
    end = 0
    for piece in found.pieces:
        assert found.extracted is not None
        start = end + piece.gap
        end = start + len(piece.content)
        assert found.extracted.text[start:end] == piece.content and len(piece.content) <= 1400
    return found


def borders(text: str, found: ChunkedDocument) -> list[tuple[str, str]]:
    """What stands on both sides of each border without white space."""
    end, places = 0, []
    for piece in found.pieces:
        if piece.gap == 0 and end:
            places.append((text[end - 1], text[end]))
        end += piece.gap + len(piece.content)
    return places


def _json(rows: int) -> str:
    row = {
        "id": 0,
        "name": "",
        "nums": [],
        "nested": {"aKey": [True, None], "price": 0.5},
        "text": "größer, als man denkt",
    }
    many = [
        {
            **row,
            "id": n * 7919,
            "name": RANDOM.choice(WORDS),
            "nums": [RANDOM.randrange(10**9) for _ in range(9)],
        }
        for n in range(rows)
    ]
    return json.dumps(many, separators=(",", ":"), ensure_ascii=False)


LINES = {
    "minified json": _json(1_500),
    "minified javascript": "".join(
        f"function fn{n}(aLongName,b){{return aLongName.some_property*{n}+b[{n}]}};"
        for n in range(2_500)
    ),
    "numbers": "[" + ",".join(str(RANDOM.randrange(10**9)) for _ in range(15_000)) + "]",
    "floats": "[" + ",".join(str(RANDOM.random()) for _ in range(8_000)) + "]",
    "css": "".join(
        f".class-{n}>li:hover{{margin:{n}px 0;color:#fff}}" for n in range(5_000)
    ).replace(" ", "\u00a0"),
    "xml": "".join(f"<item id='{n}'><name>thing{n}</name></item>" for n in range(4_000)),
    "urls": "|".join(f"https://example.org/path/{n}?query={n * 7}" for n in range(4_000)),
    "escaped": json.dumps("größer «so» " * 9_000).replace(" ", "\\n"),
}


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("name", ["a.json", "a.txt", "a.md"])
def test_a_line_without_spaces_is_cut_between_words(kind: str, name: str) -> None:
    text = LINES[kind]
    found = cut(text, name)
    torn = [pair for pair in borders(text, found) if re.fullmatch(r"\w\w", "".join(pair))]
    assert len(found.pieces) > 60 and torn == []


def test_numbers_and_escapes_are_not_torn() -> None:
    for kind in ("floats", "minified json", "escaped"):
        found = cut(LINES[kind], "a.json")
        assert not [
            pair
            for pair in borders(LINES[kind], found)
            if pair[0] == "\\" or re.fullmatch(r"\.\d", "".join(pair))
        ]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("".join(w.capitalize() for w in RANDOM.choices(WORDS[:3], k=5_000)), "[a-z][A-Z]"),
        ("_".join(RANDOM.choices(WORDS[:3], k=5_000)), "_[a-z]"),
        ("".join(f"ab{n:07}" for n in range(3_000)), r"[b\d][a\d]"),
    ],
)
def test_an_identifier_that_does_not_fit_is_cut_at_its_parts(text: str, inside: str) -> None:
    assert all(re.fullmatch(inside, "".join(pair)) for pair in borders(text, cut(text, "a.txt")))


def test_rows_stay_whole_and_carry_the_names_of_their_columns() -> None:
    rows = [
        f'{n},"Item {n}, large. Very good! And on, and on",{n * 3}.50,Berlin' for n in range(3_000)
    ]
    found = cut("id,name,price,city\n" + "\n".join(rows), "a.csv")
    assert [line for piece in found.pieces for line in piece.content.split("\n")] == [
        "id,name,price,city",
        *rows,
    ]
    assert {piece.heading for piece in found.pieces} == {("id, name, price, city",)}


def test_a_renamed_column_changes_the_text_of_its_row_alone() -> None:
    rows = "\n".join(f"{n},{n * 3},thing {n}" for n in range(3_000))
    before, after = (
        cut(f"{names}\n{rows}\n", "a.csv").pieces for names in ("id,price,name", "id,cost,name")
    )
    assert len({piece.hash for piece in after} - {piece.hash for piece in before}) == 1


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_any_separator_is_known(separator: str) -> None:
    text = "\n".join(
        separator.join(row)
        for row in [["a name", "b", "c"], *[[str(n), "x. y", "z"] for n in range(500)]]
    )
    found = cut(text, "a.tsv" if separator == "\t" else "a.csv")
    assert found.pieces[-1].heading == ("a name, b, c",)


@pytest.mark.parametrize("first", ["1,2,3", "2024-01-01,5,6", "a,a,b", "only one column"])
def test_a_first_row_that_names_no_columns_is_no_heading(first: str) -> None:
    assert cut(first + "\n" + "4,5,6\n" * 900, "a.csv").pieces[-1].heading == ()


def test_quoted_csv_fields_span_lines_and_an_open_quote_takes_no_other_row() -> None:
    rows = [f'{n},"one\ntwo, three\nfour {n}"' for n in range(900)]
    found = cut("id,text\n" + "\n".join(rows), "a.csv")
    assert all(
        re.match(r"\d+,\"one|id,", piece.content) and piece.content.count('"') % 2 == 0
        for piece in found.pieces
    )
    found = cut('id,text\n1,"open\n' + "\n".join(f"{n},text {n}" for n in range(900)), "a.csv")
    assert all(re.match(r"\d+,|id,", piece.content) for piece in found.pieces)


@pytest.mark.parametrize("name", ["a.log", "a.txt"])
def test_lines_of_a_log_stay_whole_with_what_is_indented_below_them(name: str) -> None:
    lines = [
        f"2026-01-02 03:04:{n % 60:02} INFO request {n}. It was served! in 12 ms, no more"
        for n in range(3_000)
    ]
    lines[1_500] += "\n  File a.py, line 3. Look\n    raise X"
    found = cut("\n".join(lines), name)
    assert all(piece.content.startswith("2026") for piece in found.pieces)


@pytest.mark.parametrize("name", ["a.py", "a.yaml", "a.jsonl", "a.sql"])
def test_code_and_data_are_cut_between_lines(name: str) -> None:
    lines = [f'    value_{n} = call("A sentence. And one more!", {n})' for n in range(2_000)]
    assert all(re.match("value_", piece.content) for piece in cut("\n".join(lines), name).pieces)


def test_a_name_that_says_the_format_wins_over_looks() -> None:
    text = "-- one\n------\n\n-- two\n------\n\n-- three\n--------\n\nselect 1;\n"
    for name, format_ in (
        ("a.sql", "lines"),
        ("a.json", "lines"),
        ("a.adoc", "asciidoc"),
        ("a.txt", "plain"),
    ):
        found = cut(text.replace("-- ", "") if name == "a.txt" else text, name)
        assert found.extracted is not None and found.extracted.format == (
            "rst" if name == "a.txt" else format_
        )


MARKUPS = {
    "a.org": (
        "#+TITLE: Book\n* One :tag:\nwords\n#+BEGIN_SRC sh\n* not one\n#+END_SRC\n** TODO "
        "[#A] Two\nmore",
        "Book",
    ),
    "a.adoc": ("= Book\n\n== One\nwords\n\n----\n== not one\n----\n\n=== Two\nmore", "Book"),
    "a.tex": (
        "\\title{Book}\n\\section{One \\emph{}}\nwords\n\\begin{verbatim}\n\\section{not "
        "one}\n\\end{verbatim}\n\\subsection[x]{Two\\label{t}}\nmore",
        "Book",
    ),
    "a.textile": (
        "h1. Book\n\nh2. One\n\nwords\n\n<pre>\nh2. not one\n</pre>\n\nh3(class). Two\n\nmore",
        "Book",
    ),
    "a.wiki": (
        "= Book =\n== One ==\nwords\n<nowiki>\n== not one ==\n</nowiki>\n=== Two ===\nmore",
        "Book",
    ),
    "a.man": ('.TH BOOK 1\n.SH One\nwords\n.SS "Two"\nmore', "BOOK"),
}


@pytest.mark.parametrize("name", MARKUPS)
def test_headings_of_other_markups_are_known(name: str) -> None:
    text, title = MARKUPS[name]
    found = cut(text.replace("words", "words " * 300).replace("more", "more " * 300), name)
    assert found.extracted is not None and found.extracted.title == title
    paths = [piece.heading for piece in found.pieces]
    assert paths[-1][-2:] == ("One", "Two") and not any("not one" in str(path) for path in paths)


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\r", "\r\n"])
def test_every_line_end_is_one(end: str) -> None:
    text = f"# One{end}{end}words{end}{end}## Two{end}{end}more".encode()
    assert [
        (p.heading, p.content) for p in chunk_document(text, "a.md", None, ChunkerConfig()).pieces
    ] == [
        (("One",), "# One\n\nwords"),
        (("One", "Two"), "## Two\n\nmore"),
    ]


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("# Docs { #docs-urls }", "Docs"),
        ("# Docs {#docs .wide key=val}", "Docs"),
        ("# Docs {: #docs }", "Docs"),
        ("# Docs {-}", "Docs"),
        ("# Docs # {#docs}", "Docs"),
        ("# Docs {.unnumbered}", "Docs"),
        ('# <a id="docs"></a>Docs', "Docs"),
        ("# GET /v1/{id}", "GET /v1/{id}"),
        ("# The { brace }", "The { brace }"),
        ("# Docs {/* #docs */}", "Docs"),
        ("# Docs <!-- no -->", "Docs"),
        ("Docs {#docs}\n=====", "Docs"),
    ],
)
def test_attributes_are_no_part_of_a_title(line: str, title: str) -> None:
    found = cut(f"{line}\n\nwords\n", "a.md")
    assert found.extracted is not None and (found.extracted.title, found.pieces[0].heading) == (
        title,
        (title,),
    )


STUBS = {
    "a.md": [
        "{{#include ../a.rs}}",
        "```rust\n{{#rustdoc_include ../a.rs:here}}\n```",
        "{!> ../../docs_src/a.py!}",
        '--8<-- "a.md"',
        "--8<--\na.md\n--8<--",
        "{* ../a.py hl[1] *}",
        '```Python hl_lines="4"\n{!../../a.py!}\n```',
        "{% include a.html %}",
        "{{< readfile a.md >}}",
        "<!--@include: ./a.md-->",
        "<<< @/a.js",
        "[!INCLUDE [a](../a.md)]",
        "```{include} ../a.md\n```",
    ],
    "a.rst": [".. include:: ../a.rst", ".. literalinclude:: a.py\n   :lines: 1-3"],
    "a.adoc": ["include::a.adoc[]"],
    "a.org": ["#+INCLUDE: a.org"],
    "a.tex": ["\\input{a}"],
}


@pytest.mark.parametrize(
    ("name", "stub"), [(name, stub) for name, stubs in STUBS.items() for stub in stubs]
)
def test_a_directive_that_stands_for_another_file_is_no_passage(name: str, stub: str) -> None:
    assert cut(f"{stub}\n", name).pieces == ()
    words = "words and more of them " * 40
    for text in (
        f"{stub}\n\n{words}\n",
        f"{words}\n\n{stub}\n",
        f"{stub}\n\n{stub}\n\n{words}\n\n{stub}\n",
    ):
        assert [piece.content.strip() for piece in cut(text, name).pieces] == [words.strip()]
    assert [
        piece.content.strip() for piece in cut(f"{words}\n\n{stub}\n\n{words}\n", name).pieces
    ] == [words.strip()] * 2


def test_code_about_directives_is_text() -> None:
    text = "```\n{% include a.html %}\nand more\n```\n"
    assert "include" in cut(text, "a.md").pieces[0].content
