"""Documents of office programs, pages and mails: text, structure, and what cannot be read."""

from __future__ import annotations

import io
import random
import zipfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livedex.pipeline.errors import NoTextError
from livedex.pipeline.extract import ExtractedText, extract, is_supported_file
from livedex.pipeline.extract.formats import archive as archives
from tests.support.builders.office_files import archive, docx, epub, ipynb, odt, pdf, pptx, xlsx

DOCX = docx(
    ("H1", "Refunds"),
    "A parcel can be returned within 30 days.",
    ("H2", "Costs"),
    ("list", "Postage is free"),
    ("list", "Boxes cost 2 €"),
    [["Country", "Days"], ["Austria", "30"], ["Chile | Peru", "60"]],
    "# not a heading",
)
PPTX = pptx(("First things", ["Point one", "Point two"]), ("Second things", ["Übermorgen"]))
XLSX = xlsx(
    {"Prices": [["Item", "Price"], *([f"tea {n}", f"{n}.50"] for n in range(45))], "Empty": []}
)
ODT = odt(
    '<text:h text:outline-level="1">Open</text:h><text:p>Free <text:span>text</text:span>'
    "<text:tab/>here<text:line-break/>below.</text:p><text:list><text:list-item><text:p>one"
    "</text:p></text:list-item></text:list><table:table><table:table-row><table:table-cell>"
    "<text:p>a</text:p></table:table-cell><table:table-cell><text:p>b</text:p></table:table-cell>"
    "</table:table-row></table:table>"
)
ODS = odt(
    '<table:table table:name="Stock"><table:table-row><table:table-cell><text:p>Item</text:p>'
    '</table:table-cell><table:table-cell table:number-columns-repeated="16000"/>'
    '</table:table-row><table:table-row table:number-rows-repeated="1000000"><table:table-cell>'
    "<text:p>milk</text:p></table:table-cell></table:table-row></table:table>",
    kind="spreadsheet",
)
EPUB = epub("<html><body><h1>One</h1><p>First.</p></body></html>", "<p>Second chapter.</p>")
HTML = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Shop – refunds</title>
<style>p {color: red}</style><script>var x = "hidden";</script></head><body>
<nav><a href="/">Home menu</a></nav><header>Banner</header>
<main><h1>Refunds</h1><p>Parcels <b>can</b> be<br>returned.</p>
<ul><li>one<ul><li>inner</li></ul></li><li>two &amp; three</li></ul>
<table><tr><th>Country</th><th>Days</th></tr><tr><td>Peru</td><td>60</td></tr></table>
<pre>x = 1
y = 2</pre><aside>Buy more</aside></main><footer>Imprint</footer></body></html>""".encode()
EML = (
    "From: Ann <ann@example.org>\r\nTo: bob@example.org\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n"
    "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n"
    "Content-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"
    "Hallo M\u00fcller,\r\n\r\nbis morgen.\r\n--B\r\nContent-Type: application/pdf\r\n"
    "Content-Disposition: attachment; filename=plan.pdf\r\n\r\nx\r\n--B--\r\n"
).encode("latin-1")
RTF = (
    rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\*\generator x;}\f0 Gr\'fc\'dfe "
    rb"\u8364? 5\par Second \{line\}{\pict 00ff}\par}"
)
IPYNB = ipynb(("markdown", "# Study\n\nSome words."), ("code", "print('hello')"))
PDF = pdf(
    ["Annual report", "A parcel can be returned with-", "in 30 days, as everybody knows by now."],
    ["Annual report", "The second page is about tea (green)."],
    ["Annual report", "The third page ends here."],
    title="Report",
)


def read(content: bytes, name: str, mime_type: str | None = None) -> ExtractedText:
    return extract(content, name=name, mime_type=mime_type)


@pytest.mark.parametrize(
    ("content", "name", "phrases"),
    [
        (
            DOCX,
            "a.docx",
            [
                "# Refunds\n",
                "A parcel can be returned within 30 days.",
                "## Costs",
                "- Postage is free\n- Boxes cost 2 €",
                "| Country | Days |\n| --- | --- |\n| Austria | 30 |",
                "Chile \\| Peru",
                "\\# not a heading",
            ],
        ),
        (PPTX, "a.pptx", ["## First things\n\n- Point one\n- Point two", "- Übermorgen"]),
        (XLSX, "a.xlsx", ["## Prices", "| tea 44 | 44.50 |"]),
        (ODT, "a.odt", ["# Open", "Free text here\nbelow.", "- one", "| a | b |"]),
        (ODS, "a.ods", ["## Stock", "| milk |"]),
        (EPUB, "a.epub", ["# One\n\nFirst.", "Second chapter."]),
        (
            HTML,
            "a.html",
            [
                "# Refunds",
                "Parcels can be\nreturned.",
                "- one\n  - inner\n- two & three",
                "| Country | Days |",
                "```\nx = 1\ny = 2\n```",
            ],
        ),
        (EML, "a.eml", ["# Grüße", "From: Ann <ann@example.org>", "Hallo Müller,", "plan.pdf"]),
        (RTF, "a.rtf", ["Grüße € 5", "Second {line}"]),
        (IPYNB, "a.ipynb", ["# Study", "```python\nprint('hello')\n```"]),
        (
            PDF,
            "a.pdf",
            ["A parcel can be returned within 30 days, as everybody knows", "about tea (green)."],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_text_and_structure_are_kept(content: bytes, name: str, phrases: list[str]) -> None:
    found = read(content, name)
    for phrase in phrases:
        assert phrase in found.text, found.text
    assert is_supported_file(name)
    assert read(content, "noname").text == found.text or name in ("a.eml", "a.ipynb")


def test_what_is_not_content_is_left_out() -> None:
    text = read(HTML, "a.html").text
    assert not any(
        word in text for word in ("Home menu", "Banner", "hidden", "color", "Buy more", "Imprint")
    )
    assert "99" not in read(PPTX, "a.pptx").text and "00ff" not in read(RTF, "a.rtf").text
    assert read(PDF, "a.pdf").text.count("Annual report") == 0


def test_titles_and_authors_are_metadata() -> None:
    found = read(DOCX, "a.docx")
    assert (found.title, found.metadata["author"]) == ("A report", "Ann")
    assert read(HTML, "a.html").title == "Shop – refunds"
    assert read(HTML, "a.html").metadata["language"] == "en"
    assert read(EML, "a.eml").metadata == {
        "author": "Ann <ann@example.org>",
        "attachments": ["plan.pdf"],
    }
    assert (read(PDF, "a.pdf").title, read(PDF, "a.pdf").metadata["pages"]) == ("Report", 3)
    assert read(ODT, "a.odt").title == "An open title" and read(EPUB, "a.epub").title == "A book"


def test_rows_of_a_long_table_keep_their_head() -> None:
    assert read(XLSX, "a.xlsx").text.count("| Item | Price |") == 3


def test_saved_again_without_a_change_the_text_is_the_same() -> None:
    assert read(docx("a", saved="05"), "a.docx").text == read(docx("a", saved="06"), "a.docx").text
    again = zipfile.ZipFile(io.BytesIO(DOCX))
    parts = {name: again.read(name) for name in reversed(again.namelist())}
    assert read(archive(parts, b"saved"), "a.docx").text == read(DOCX, "a.docx").text
    assert (
        read(pdf(["a b"], saved="1"), "a.pdf").text == read(pdf(["a b"], saved="2"), "a.pdf").text
    )


@pytest.mark.parametrize("charset", ["utf-8", "windows-1251", "utf-16", "euc-jp", "iso-8859-1"])
@pytest.mark.parametrize("said_by", ["header", "meta"])
def test_the_charset_of_a_page_is_found(charset: str, said_by: str) -> None:
    words = {"windows-1251": "Привет мир", "euc-jp": "日本語の文", "iso-8859-1": "Grüße – dort"}
    text = words.get(charset, "Grüße")
    meta = f'<meta charset="{charset}">' if said_by == "meta" else ""
    page = f"<html><head>{meta}</head><body><p>{text}</p></body></html>"
    content = page.encode("cp1252" if charset == "iso-8859-1" else charset)
    mime = f"text/html; charset={charset}" if said_by == "header" else "text/html"
    assert read(content, "a", mime).text == text


BOMB = archive({"word/document.xml": b"<w>" + b" " * 50_000_000 + b"</w>"})
ENTITIES = archive(
    {
        "word/document.xml": '<!DOCTYPE d [<!ENTITY a "x"><!ENTITY b "&a;&a;"><!ENTITY f SYSTEM '
        '"file:///etc/passwd">]><d><body><p><t>ok &b;&f;</t></p></body></d>'
    }
)


def test_entities_are_not_resolved() -> None:
    text = read(ENTITIES, "a.docx").text
    assert text.startswith("ok") and "root" not in text and "x" not in text


def test_an_archive_is_unpacked_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(NoTextError, match="Unpacked") as raised:
        read(BOMB, "a.docx")
    assert raised.value.state == "too_large"


@pytest.mark.parametrize(
    ("content", "name", "state"),
    [
        (b"%PDF-1.7\n garbage", "a.pdf", "corrupt"),
        (b"no pdf at all", "a.pdf", "corrupt"),
        (PDF[: len(PDF) // 3], "a.pdf", "corrupt"),
        (pdf([""], [""], picture=True), "a.pdf", "no_text"),
        (DOCX[:200], "a.docx", "corrupt"),
        (b"PK\x03\x04 broken", "a.docx", "corrupt"),
        (b"text", "a.docx", "corrupt"),
        (docx(), "a.docx", "empty"),
        (archive({"a.txt": "x"}), "a.xlsx", "corrupt"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a.doc", "unsupported"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx",
            "encrypted",
        ),
        (b"<html><body><script>x</script></body></html>", "a.html", "empty"),
        (b"{}", "a.ipynb", "corrupt"),
        (b"[1]", "a.ipynb", "corrupt"),
        (archive({"a.txt": "x"}), "a.zip", "unsupported"),
    ],
)
def test_what_cannot_be_read_says_why(content: bytes, name: str, state: str) -> None:
    with pytest.raises(NoTextError) as raised:
        read(content, name)
    assert raised.value.state == state and len(str(raised.value)) > 20


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([DOCX, PPTX, XLSX, ODT, EPUB, PDF, EML, RTF, HTML, IPYNB]), st.integers())
def test_damaged_bytes_end_in_a_text_or_a_state(content: bytes, seed: int) -> None:
    rng = random.Random(seed)
    damaged = bytearray(content)
    for _ in range(rng.randint(1, 30)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    if rng.random() < 0.3:
        del damaged[rng.randrange(len(damaged)) :]
    states: set[str] = set()
    for name in ("a.docx", "a.pdf", "a.html", "a.eml", "a.odt", "a.epub", "a.rtf", "a.ipynb"):
        try:
            assert read(bytes(damaged), name).text
        except NoTextError as exc:
            states.add(exc.state)
    assert states <= {"empty", "corrupt", "encrypted", "unsupported", "no_text", "too_large"}


def test_deep_pages_and_long_lists_are_read() -> None:
    assert "end" in read(b"<div>" * 5_000 + b"end", "a.html").text
    assert "- x" in read(b"<ul><li>x" * 300, "a.html").text
    assert "tail" in read(b"<b>" * 3_000 + b"in" + b"</b>" * 3_000 + b"tail", "a.html").text
