"""Front matter: what is written is what is found, whatever the syntax; what cannot be read is told
and stays text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from livedex.pipeline.extract import ExtractedText, extract
from livedex.pipeline.extract.front_matter import ERROR_KEY, parse_front_matter
from livedex.pipeline.stages.document_chunker import ChunkerConfig, chunk_document


def read(text: str) -> ExtractedText:
    return extract(text.encode(), name="a.md")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NO", "NO"),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("Off", "Off"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("null", None),
        ("", None),
        ("150", 150),
        ("-3", -3),
        ("0", 0),
        ("0150", "0150"),
        ("+5", "+5"),
        ("-0", "-0"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("1.5", 1.5),
        ("1.0", 1.0),
        ("1.10", "1.10"),
        ("1.", "1."),
        (".5", ".5"),
        ("1e3", "1e3"),
        ("1e+16", 1e16),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("1.2.3", "1.2.3"),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("9" * 5_000, "9" * 5_000),
        ("3.14159265358979323846", "3.14159265358979323846"),
        ("2024-05-01", "2024-05-01"),
        ("2024-13-45", "2024-13-45"),
        ("2024-05-01 10:00:00", "2024-05-01 10:00:00"),
        ("=", "="),
        ("<<", "<<"),
        ('"1.5"', "1.5"),
        ("'true'", "true"),
        ("!!str 12", "12"),
        ("!!int 12", 12),
        ("!!int x", "x"),
        ("!!timestamp tomorrow", "tomorrow"),
        ("!!python/name:os.system x", "x"),
        ("!date 2024", "2024"),
        ("!!binary aGk=", "aGk="),
        ("[1, 2.50, NO]", [1, "2.50", "NO"]),
        ("{a: 010}", {"a": "010"}),
    ],
)
def test_a_value_is_what_the_core_schema_of_yaml_says_and_numbers_stay_as_written(
    written: str, value: Any
) -> None:
    for text in (f"---\nv: {written}\n---\n# A\n", f"---\na:\n  v: {written}\n---\n# A\n"):
        metadata = read(text).metadata
        found = metadata.get("a", metadata)
        assert found == {"v": value} and type(found["v"]) is type(value)


def test_keys_are_texts_as_written() -> None:
    assert read("---\nyes: 1\n1.10: 2\n007: 3\n2024-05-01: 4\n~: 5\n---\n").metadata == {
        "yes": 1,
        "1.10": 2,
        "007": 3,
        "2024-05-01": 4,
        "~": 5,
    }


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        (
            "+++\nv = 1.10\nw = 1.5\nday = 2024-05-01\n[a]\nb = true\n+++\n",
            {"v": "1.10", "w": 1.5, "day": "2024-05-01", "a": {"b": True}},
        ),
        ('{\n "v": 1.10, "w": 1.5\n}\n', {"v": "1.10", "w": 1.5}),
        ('{"v": [1, 2]}\n', {"v": [1, 2]}),
        (';;;\n"v": 1\n;;;\n', {"v": 1}),
        ('---json\n{"v": 1}\n---\n', {"v": 1}),
        ("---toml\nv = 1\n---\n", {"v": 1}),
        ("---yaml\nv: 1\n---\n", {"v": 1}),
        ("---\nv: 1\n...\n", {"v": 1}),
        ("---  \nv: 1\n---\t\n", {"v": 1}),
        ("---\r\nv: 1\r\n---\r\n", {"v": 1}),
        ("---\rv: 1\r---\r", {"v": 1}),
        ("\ufeff---\nv: 1\n---\n", {"v": 1}),
        ("---\n# a remark\nv: 1\n---\n", {"v": 1}),
        ("---\nv:\n\t- a\n\t- b\n---\n", {"v": ["a", "b"]}),
        ("---\nv:\t1\n---\n", {"v": 1}),
        ("---\n\tv: 1\n---\n", {"v": 1}),
        ("---\nv: |\n  a: b\n  c\n---\n", {"v": "a: b\nc\n"}),
    ],
)
def test_front_matter_is_read_in_every_usual_form(text: str, metadata: dict[str, Any]) -> None:
    found = read(f"{text}# Body\n\nwords\n")
    assert (
        found.metadata == metadata
        and found.text[found.start :].startswith("# Body")
        and found.searchable_front_matter is None
    )


@pytest.mark.parametrize(
    ("text", "values", "is_text"),
    [
        ("---\ntitle: Foo: bar\ntags: [a]\n---\n", {"title": "Foo: bar", "tags": ["a"]}, False),
        (
            "---\nauthor: @me\nx: `y`\nz: 100% sure\n---\n",
            {"author": "@me", "x": "`y`", "z": "100% sure"},
            False,
        ),
        (
            '---\ntitle: "Foo" and bar\nyear: 2024\n---\n',
            {"title": '"Foo" and bar', "year": 2024},
            False,
        ),
        ("---\ntitle: {{ title }}\ntags: [a]\n---\n", {"tags": ["a"]}, True),
        ("---\ntitle: {% if x %}a{% endif %}\ntags: [a]\n---\n", {"tags": ["a"]}, True),
        ("---\ntitle: x\nlist: [open\nyear: 2024\n---\n", {"title": "x", "year": 2024}, True),
        ("---\na: &a [1]\nb: *a\n---\n", {"a": [1]}, True),
        ("---\na: 1\na: 2\n---\n", {"a": 2}, False),
        ("---\ntitle: [open\n  : : :\n---\n", {}, True),
        ("+++\nv = \n+++\n", {}, True),
        ('{\n "v": \n}\n', {}, True),
        ("---json\nv: 1\n---\n", {}, True),
        ('{"a": 1, "a": 2}\n', {"a": 2}, False),
        ("---\nbig: x\n" + "k: " + "y" * 70_000 + "\n---\n", {}, True),
        ("---\ndeep: " + "[" * 40 + "]" * 40 + "\nv: 1\n---\n", {"v": 1}, True),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_read_is_told_and_costs_neither_other_keys_nor_text(
    text: str, values: dict[str, Any], is_text: bool
) -> None:
    found = read(f"{text}# Body\n\nwords\n")
    error = found.metadata.pop(ERROR_KEY)
    assert isinstance(error, str) and 0 < len(error) < 400
    assert found.metadata == values and found.text[found.start :].startswith("# Body")
    assert (found.searchable_front_matter is not None) == is_text
    cut = chunk_document(f"{text}# Body\n\nwords\n".encode(), "a.md", None, ChunkerConfig())
    assert any("words" in piece.content for piece in cut.pieces)
    assert not any("# Body" in piece.content and "---" in piece.content for piece in cut.pieces)


@pytest.mark.parametrize(
    "text",
    [
        "---\nkind: recipe\ntags: [soup, leek]\n---\n",
        "---\nkind: recipe\ntags: soup leek\n---\n\n  \n",
        '{\n"kind": "recipe", "of": "soup leek"\n}\n',
        "+++\nkind = 'recipe'\nof = 'soup leek'\n+++",
        "---\nkind: {{ recipe }}\nof: soup leek\n---\n",
    ],
)
def test_properties_of_a_note_without_text_are_its_text(text: str) -> None:
    cut = chunk_document(text.encode(), "a.md", None, ChunkerConfig())
    assert cut.state == "synced" and len(cut.pieces) == 1
    piece = cut.pieces[0]
    assert "recipe" in piece.content and "leek" in piece.content and "---" not in piece.content
    assert text[piece.gap : piece.gap + len(piece.content)] == piece.content
    assert (piece.heading, cut.extracted and cut.extracted.mime_type) == ((), "text/markdown")


def test_properties_stay_out_of_a_note_that_has_text() -> None:
    cut = chunk_document(b"---\nkind: recipe\n---\nwords\n", "a.md", None, ChunkerConfig())
    assert [piece.content for piece in cut.pieces] == ["words"]


@pytest.mark.parametrize("text", ["---\n---\n", "+++\n+++\n"])
def test_front_matter_without_properties_is_empty(text: str) -> None:
    assert chunk_document(text.encode(), "a.md", None, ChunkerConfig()).state == "empty"


HOSTILE: dict[str, Callable[[int], str]] = {
    "dotted key": lambda n: "+++\n" + "a." * (n // 2) + "a = 1\n+++\n",
    "dotted keys": lambda n: "+++\n" + ("a." * 150 + "a = 1\n") * (n // 306) + "+++\n",
    "dotted table": lambda n: "+++\n[" + "a." * (n // 2) + "a]\n+++\n",
    "dotted inline": lambda n: "+++\nx = {" + "a . " * (n // 4) + "a = 1}\n+++\n",
    "tables": lambda n: "+++\n" + "".join(f"[a.b{i}]\n" for i in range(n // 10)) + "+++\n",
    "deep array": lambda n: "+++\na = " + "[" * n + "\n+++\n",
    "toml escapes": lambda n: '+++\na = "' + "\\n" * (n // 2) + '"\n+++\n',
    "deep flow": lambda n: "---\na: " + "[" * n + "\n---\n",
    "flow": lambda n: "---\na: " + "[" * 30 + "b," * (n // 2) + "\n---\n",
    "dashes": lambda n: "---\n" + "- " * (n // 2) + "\n---\n",
    "keys": lambda n: "---\n" + "".join(f"k{i}: 1\n" for i in range(n // 9)) + "---\n",
    "broken keys": lambda n: "---\n" + "a: [\n" * (n // 5) + "---\n",
    "colons": lambda n: "---\na: " + "a: " * (n // 3) + "\n---\n",
    "anchors": lambda n: (
        "---\n" + "".join(f"a{i}: &x 1\n" for i in range(n // 12)) + "b: *x\n---\n"
    ),
    "blank": lambda n: "---\na: b" + "\n" * n + " x\n---\n",
    "spaces": lambda n: "---\nab: {\n" + " " * n + "\n---\n",
    "remarks": lambda n: "---\n" + "#\n" * (n // 2) + "x",
    "never closed": lambda n: "---\na: b\n" + "-\n" * (n // 2),
    "deep json": lambda n: '{"a": ' + "[" * n + "\n}\n",
    "json digits": lambda n: '{"a": ' + "1" * n + "\n}\n",
}


def _work(text: str) -> int:
    """How many calls reading it takes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        parse_front_matter(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", HOSTILE)
def test_the_work_of_reading_front_matter_grows_with_its_size(kind: str) -> None:
    small, large = (_work(HOSTILE[kind](n)) for n in (3_000, 12_000))
    assert large <= 6 * small + 1_000
