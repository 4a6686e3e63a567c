"""Data that is not text is left out of passages; all other offsets stay."""

from __future__ import annotations

import base64
import json
import random
import textwrap

import pytest

from livedex.pipeline.extract import extract
from livedex.pipeline.stages.document_chunker import ChunkerConfig, chunk_document

BYTES = random.Random(2).randbytes
WORDS = "A sentence of words that somebody wrote. " * 5


def encoded(size: int) -> str:
    return base64.b64encode(BYTES(size)).decode()


NON_TEXT = {
    "picture": f"![Alt text](data:image/png;base64,{encoded(100_000)})",
    "small picture": f"![Alt text](data:image/gif;base64,{encoded(60)})",
    "html": f'<img src="data:image/jpeg;base64,{encoded(5_000)}" alt="x"/>',
    "css": f"a {{background: url(data:image/gif;base64,{encoded(500)}); color: red}}",
    "definition": f"[image1]: <data:image/png;base64,{encoded(9_000)}>",
    "wrapped": "data:image/png;base64,\n" + "\n".join(textwrap.wrap(encoded(4_000), 76)),
    "percent": "<img src='data:image/svg+xml,%3Csvg xmlns=%27x%27%3E" + "%20" * 100 + "'>",
    "source map": "//# sourceMappingURL=data:application/json;charset=utf-8;base64," + encoded(900),
    "mappings": '{"version":3,"mappings":"' + ";".join(["AAAA,SAASC"] * 50) + '"}',
    "pem": "-----BEGIN PRIVATE KEY-----\n"
    + "\n".join(textwrap.wrap(encoded(1_200), 64))
    + "\n-----END PRIVATE KEY-----",
    "json": json.dumps({"name": "logo", "data": encoded(3_000)}),
    "token": "token: " + base64.urlsafe_b64encode(BYTES(300)).decode(),
    "hex": "key " + BYTES(400).hex(),
    "pairs": "Bytes: " + " ".join(f"{x:02x}" for x in BYTES(300)),
    "array": "char a[] = {\n"
    + ",\n".join(", ".join(f"0x{x:02x}" for x in BYTES(12)) for _ in range(30))
    + "};",
    "dump": "\n".join(
        f"{n * 16:08x}: " + " ".join(BYTES(2).hex() for _ in range(8)) + "  ....M..z........"
        for n in range(40)
    ),
    "mail": "\n".join(textwrap.wrap(encoded(6_000), 76)),
    "drawing": '<path class="a" d="M12 3.4L5 6' + " l1.2 3.4,5.6" * 50 + '"/>',
    "yaml": "tls.crt: " + encoded(1_500),
}


@pytest.mark.parametrize("kind", NON_TEXT)
@pytest.mark.parametrize("name", ["a.md", "a.txt", "a.json"])
def test_it_is_left_out_and_the_words_around_it_keep_their_places(kind: str, name: str) -> None:
    text = f"# Before\n\n{WORDS}\n\n{NON_TEXT[kind]}\n\n## After\n\n{WORDS}\n"
    found = chunk_document(text.encode(), name, None, ChunkerConfig())
    assert found.extracted is not None and found.extracted.text == text
    left_out = found.extracted.metadata["left_out_characters"]
    assert left_out >= 0.6 * len(NON_TEXT[kind])
    end, shown = 0, 0
    for piece in found.pieces:
        start = end + piece.gap
        end = start + len(piece.content)
        assert text[start:end] == piece.content
        shown += len("".join(piece.content.split()))
    joined = "".join(piece.content for piece in found.pieces)
    assert joined.count(WORDS.strip()) == 2
    assert (
        len("".join(text.split())) - left_out - 12
        <= shown
        <= len("".join(text.split())) - 0.6 * left_out
    )


@pytest.mark.parametrize("size", [2, 4])
def test_the_last_line_of_a_dump_may_be_short_whatever_the_size_of_its_words(size: int) -> None:
    rows = [" ".join(BYTES(size).hex() for _ in range(16 // size)) for _ in range(20)]
    text = (
        "Before.\n\n"
        + "".join(f"{n * 16:08x}: {row}\n" for n, row in enumerate([*rows, rows[0][:9]]))
        + "\nBehind.\n"
    )
    assert [
        piece.content
        for piece in chunk_document(text.encode(), "a.txt", None, ChunkerConfig()).pieces
    ] == ["Before.", "Behind."]


TEXTS = {
    "one letter": "x" * 20_000,
    "path": "/usr/share/doc/" * 40,
    "url": "https://example.org/" + "some-long-Path/Part2/" * 30,
    "numbers": " ".join(map(str, range(3_000))),
    "columns": "12 34 56 78 90 " * 200,
    "bases": "ACGTTGCA" * 200,
    "identifier": "getUserNameFromDatabaseConnection" * 20,
    "snake": "_".join(["HTTP2", "Server", "Name", "v3"] * 60),
    "digits": "31415926535897932384626433832795" * 30,
    "checksum": "sha512 " + BYTES(64).hex(),
    "chinese": "这是一个测试" * 200,
    "words": "supercalifragilistic " * 300,
    "short uri": "data:text/plain,hello",
    "data": "data: one; data, two\n" * 100,
    "rule": "=" * 500,
    "slug": "/".join(["Docs", "v2Api", "Reference", "getUser01"] * 20),
    "table": "|----------|" * 60,
    "mails": "a@b.de, face cafe dead beef, " * 100,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_that_only_looks_like_it_stays(kind: str) -> None:
    found = extract(f"{TEXTS[kind]}\n\n{TEXTS[kind]}".encode(), name="a.txt")
    assert found.left_out == () and found.metadata == {}


def test_a_document_of_nothing_else_is_empty() -> None:
    assert chunk_document(encoded(5_000).encode(), "a.txt", None, ChunkerConfig()).state == "empty"


def test_no_chunk_goes_over_it_with_overlap_either() -> None:
    text = f"{WORDS * 8} data:image/png;base64,{encoded(500)} {WORDS * 8}"
    found = chunk_document(text.encode(), "a.md", None, ChunkerConfig(size=600, overlap=200))
    assert not any("base64" in piece.content for piece in found.pieces)
