"""Ids of files: valid Unicode, unique, and plain where the name is."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from livedex.connectors.filesystem.document_ids import (
    document_id,
    file_uri,
    is_too_long,
    path_from_document_id,
    path_to_text,
    text_to_path,
)
from livedex.pipeline.model import DocumentId

NAMES = st.binary(min_size=1, max_size=40).filter(lambda name: b"\0" not in name)
AWKWARD = st.lists(
    st.sampled_from(
        [b"\xff", b"\xe2\x90\x9b", b"\xe2", b"\x90", b"FF", b"9", b"B", b"/", b"%", b"a"]
    ),
    max_size=12,
).map(b"".join)


@given(NAMES | AWKWARD)
@example("␛FF".encode())
@example("␛␛FF".encode())
@example(b"\xed\xa0\x80")
def test_every_path_comes_back_from_its_readable_form(path: bytes) -> None:
    text = path_to_text(path)
    text.encode()
    assert text_to_path(text) == path


@given(AWKWARD, AWKWARD)
def test_two_paths_never_share_an_id(one: bytes, other: bytes) -> None:
    assert (document_id("docs", one) == document_id("docs", other)) == (one == other)


@pytest.mark.parametrize(
    "name",
    [
        "100% sure.md",
        "back\\slash.md",
        "line\nbreak.md",
        "bell\x07.md",
        "Zoe\u0308.md",
        "Zoë.md",
        "␛.md",
        "␛x.md",
        "\ufffd.md",
    ],
)
def test_an_ordinary_name_is_its_id(name: str) -> None:
    assert document_id("docs", name.encode()) == f"docs/{name}"


def test_a_file_really_called_like_an_escaped_one_is_escaped_itself() -> None:
    assert document_id("docs", b"bad\xff.md") == "docs/bad␛FF.md"
    assert document_id("docs", "bad␛FF.md".encode()) == "docs/bad␛E2␛90␛9BFF.md"


def test_an_id_leads_back_to_its_path_and_a_foreign_one_to_none() -> None:
    assert path_from_document_id("docs", document_id("docs", b"a/bad\xff.md")) == b"a/bad\xff.md"
    for foreign in ("other/a.md", "docs", "docs/", "docs/␛E2␛90␛9Bx"):
        assert path_from_document_id("docs", DocumentId(foreign)) is None


def test_an_id_is_too_long_by_its_bytes() -> None:
    assert not is_too_long(document_id("docs", b"a" * 1_995))
    assert is_too_long(document_id("docs", b"a" * 1_996))
    assert is_too_long(document_id("docs", "ж".encode() * 1_000))


def test_the_address_of_a_file_is_escaped_byte_by_byte() -> None:
    assert file_uri(b"/srv/docs", b"a b/bad\xff.md") == "file:///srv/docs/a%20b/bad%FF.md"
