"""Text out of bytes: encodings, front matter, formats, and files that hold none."""

import codecs
from typing import Any

import pytest

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract import (
    ExtractedText,
    extract,
    is_supported_file,
    sanitize_json,
    sanitize_text,
)

GERMAN = (
    "Die Größe der Bücherstapel überraschte die Köchin, weil später fünf Körbe voller Äpfel für "
    "die Gäste nötig wären. "
)


def read(content: bytes, name: str = "a.md", **options: Any) -> ExtractedText:
    return extract(content, name=name, **options)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252"])
@pytest.mark.parametrize("text", [GERMAN * 8, GERMAN, "Grüße aus Köln"])
def test_western_text_is_read_in_any_of_its_encodings(encoding: str, text: str) -> None:
    assert read(text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (b"", "utf-16-le"),
        (b"", "utf-16-be"),
    ],
)
def test_wide_text_is_read(mark: bytes, encoding: str) -> None:
    assert read(mark + "# Übersicht\n\nhéllo".encode(encoding)).text == "# Übersicht\n\nhéllo"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["hello world", "Привет мир, как дела", "Η γρήγορη αλεπού"])
def test_wide_text_without_a_mark_is_read_where_its_bytes_are_valid_utf8_too(
    encoding: str, text: str
) -> None:
    assert read(text.encode(encoding)).text == text


@pytest.mark.parametrize("text", ["café “q”", "“Café”", "déjà «vu»"])
def test_quotes_of_windows_are_read(text: str) -> None:
    assert read(text.encode("cp1252")).text == text


@pytest.mark.parametrize(
    "text",
    [
        "RIFFing on a theme",
        "ID3 tags explained",
        "BZh is how bzip2 begins",
        "OggS",
        "GIF89a was a format",
    ],
)
def test_a_text_may_begin_with_the_word_that_a_format_begins_with(text: str) -> None:
    assert read(text.encode()).text == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "Съешь ещё этих мягких французских булок, да выпей чаю. " * 4),
        ("shift_jis", "日本語の文章です。これは試験です。" * 6),
    ],
)
def test_other_scripts_are_guessed(encoding: str, text: str) -> None:
    assert read(text.encode(encoding), "a.txt").text == text


def test_broken_sequences_cost_no_readable_word() -> None:
    text = read(
        "Zoë wrote this. ".encode() * 20
        + b" \xc3\x28 \xf0\x9f\x92 tail \xff "
        + "naïve end".encode()
    ).text
    assert "Zoë wrote this." in text and text.endswith("naïve end") and "tail" in text


def test_nul_goes_and_line_ends_are_one() -> None:
    assert read(b"a\x00b\r\nc\rd").text == "ab\nc\nd"


@pytest.mark.parametrize(
    "content",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"PK\x03\x04" + bytes(100),
        bytes(range(256)) * 20,
        b"\x7fELF" + bytes(50),
        b"GIF89a\x01\x00\x01\x00",
        b"RIFF$\x00\x00\x00WAVE",
        b"ID3\x03\x00\x00",
    ],
)
def test_what_is_no_text_says_what_to_do(content: bytes) -> None:
    with pytest.raises(NoTextError, match=r"convert|exclude") as refused:
        read(content, "picture.txt")
    assert refused.value.state == "unsupported"


@pytest.mark.parametrize("content", [b"", b"\n", b" \t\r\n ", b"\xef\xbb\xbf", b"\x00\x00"])
def test_nothing_is_empty(content: bytes) -> None:
    with pytest.raises(NoTextError) as refused:
        read(content)
    assert refused.value.state == "empty"


def test_a_file_above_the_limit_is_too_large() -> None:
    with pytest.raises(NoTextError, match="LIVEDEX_MAX_DOCUMENT_BYTES") as refused:
        read(b"x" * 11, max_bytes=10)
    assert refused.value.state == "too_large"


def test_an_ending_that_is_not_known_is_unsupported() -> None:
    with pytest.raises(NoTextError, match=r"a\.xyz"):
        read(b"text", "folder/a.xyz")


def test_front_matter_is_metadata_and_stays_in_the_text() -> None:
    text = "---\ntitle: Leave\n# a remark\ntags: [a, b]\nday: 2024-05-01\n---\n\n# Other\n"
    found = read(text.encode())
    assert found.metadata == {"title": "Leave", "tags": ["a", "b"], "day": "2024-05-01"}
    assert (found.title, found.text, found.text[found.start :]) == ("Leave", text, "\n# Other\n")


def test_a_remark_may_open_front_matter() -> None:
    found = read(b"---\n# a remark\n# and one more\ntitle: x\n---\n# A\n")
    assert (found.metadata, found.text[found.start :]) == ({"title": "x"}, "# A\n")


def test_front_matter_of_toml_is_read() -> None:
    assert read(b"+++\nyear = 2024\n+++\nbody").metadata == {"year": 2024}


@pytest.mark.parametrize(
    "text",
    [
        "---\n\n# One\ntext\n\n---\n\n# Two\n",
        "---\n# One\n\nWarning: hot\n\n---\n",
        "---\njust words\n---\n",
        "---\ntitle: x\nnever closed",
        "---\n? [a]\n: 1\n---\n",
    ],
)
def test_what_is_no_front_matter_stays_text(text: str) -> None:
    found = read(text.encode())
    assert (found.metadata, found.start) == ({}, 0)


def test_line_ends_change_neither_metadata_nor_text() -> None:
    text = "---\ntitle: x\n---\n# A\n\nbody\n"
    assert read(text.replace("\n", "\r\n").encode()) == read(text.encode())


@pytest.mark.parametrize("mark", ["---", "+++"])
def test_front_matter_with_nothing_in_it_is_no_text(mark: str) -> None:
    found = read(f"{mark}\n{mark}\n# A\n".encode())
    assert (found.metadata, found.text[found.start :]) == ({}, "# A\n")


def test_the_title_is_the_first_heading_where_no_other_is_given() -> None:
    assert read(b"intro\n\n# The title #\n").title == "The title"
    assert read(b"```sh\n# not\n```\n\n# C#\n").title == "C#"
    assert read(b"intro\n\nUnderlined\n==========\n").title == "Underlined"
    assert read(b"1. ```sh\n   # not\n   ```\n\n# Steps\n").title == "Steps"
    assert read(b"<!--\n# hidden\n-->\n\n<pre>\n# nor this\n</pre>\n\n# Shown\n").title == "Shown"
    assert read(b"=====\nBook\n=====\n\ntext", "a.rst").title == "Book"
    assert read(b"::::::::\n   Book\n::::::::\n\ntext", "a.rst").title == "Book"
    assert read(b"some words\n...\n\nAPI\n&&&\n\ntext", "a.rst").title == "API"


def test_surrogates_are_joined_or_replaced() -> None:
    assert sanitize_text("math \ud835\udc00 and \udbff end") == "math \U0001d400 and \ufffd end"


@pytest.mark.parametrize("words", ["", "Zoë wrote: "])
def test_surrogates_that_were_written_to_a_file_are_joined_or_replaced(words: str) -> None:
    content = f"{words}math \ud835\udc00 and \udbff end".encode("utf-8", "surrogatepass")
    assert read(content, "a.txt").text == f"{words}math \U0001d400 and \ufffd end"


def test_metadata_is_cleaned_at_any_depth_keys_too() -> None:
    assert sanitize_json(
        {"k\x00": "v", "n": {"a": ["x\x00", float("nan"), 2**70]}, "\ud800": 1}
    ) == {
        "k": "v",
        "n": {"a": ["x", None, str(2**70)]},
        "\ufffd": 1,
    }


def test_values_that_have_no_text_of_their_own_are_stored_all_the_same() -> None:
    deep: Any = 1
    for _ in range(5_000):
        deep = [deep]
    cleaned = sanitize_json(
        {
            "deep": deep,
            "long": 16**5_000,
            16**4_999: {16**4_998},
            "inside": [[16**5_000] for _ in range(2)],
        }
    )
    assert cleaned["long"] == "0x1" + "0" * 5_000 and cleaned["0x1" + "0" * 4_999] == [
        "0x1" + "0" * 4_998
    ]
    while isinstance(cleaned["deep"], list):
        cleaned["deep"] = cleaned["deep"][0]
    assert cleaned["deep"] == "…"


@pytest.mark.parametrize(
    "front", ["---\nn: 0x{}\n---\n", "---\n? 0x{}\n: 1\n---\n", "+++\nn = 0x{}\n+++\n"]
)
def test_a_number_of_thousands_of_digits_in_front_matter_costs_no_document(front: str) -> None:
    found = read(f"{front.format('f' * 5_000)}# A\n".encode())
    assert found.title == "A" and "0x" + "f" * 5_000 in str(found.metadata)


def test_readable_names_are_told_by_their_ending() -> None:
    assert all(map(is_supported_file, ("a.md", "b.TXT", "d/README", "x.rst", "y.py")))
    assert not any(map(is_supported_file, ("a.png", "b.exe", "c.doc", ".gitignore", "d/core")))
