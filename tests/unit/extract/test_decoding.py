"""Which encoding a file is in, wherever in it the bytes stand that tell."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from livedex.pipeline.extract import extract
from livedex.pipeline.extract.text_decoder import decode_text

RUSSIAN = "Съешь ещё этих мягких французских булок, да выпей чаю. "
JAPANESE = "日本語の文章です。これは試験です。"
KOREAN = "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. "
GERMAN = (
    "Die Größe der Bücherstapel überraschte die Köchin, weil fünf Körbe voller Äpfel für die "
    "Gäste nötig wären. "
)
TEXTS = {
    "utf-8": GERMAN,
    "cp1252": GERMAN,
    "latin-1": "L'été dernier, la crème brûlée était délicieuse à Orléans. ",
    "cp1251": RUSSIAN,
    "koi8_r": RUSSIAN,
    "cp866": RUSSIAN,
    "shift_jis": JAPANESE,
    "euc_jp": JAPANESE,
    "iso2022_jp": JAPANESE,
    "euc_kr": KOREAN,
    "gb18030": "这是一个测试。知识库要与文件保持一致，否则答案就是旧的。",
    "big5": "這是一個測試。知識庫要與文件保持一致，否則答案就是舊的。",
    "cp1253": "Η γρήγορη αλεπού πηδά πάνω από τον τεμπέλη σκύλο. ",
    "cp1255": "דג סקרן שט בים מאוכזב ולפתע מצא חברה. ",
    "cp1256": "نص حكيم له سر قاطع وذو شأن عظيم. ",
    "cp874": "ภาษาไทยไม่มีช่องว่างระหว่างคำ ",
    "utf-16-le": RUSSIAN,
    "utf-16-be": GERMAN,
}
ASCII_LINES = "2026-01-02 03:04:05 INFO request 4711 was served in 12 ms\n"
WIDE = {
    "utf-16-le": JAPANESE,
    "utf-16-be": "这是一个测试。知识库要与文件保持一致，否则答案就是旧的。",
    "utf-32-le": GERMAN,
    "utf-32-be": RUSSIAN,
}


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize(
    ("times", "head", "tail"),
    [(1, 0, 0), (30, 0, 0), (1, 70_000, 0), (30, 90_000, 90_000), (2, 300_000, 50)],
)
def test_an_encoding_is_told_wherever_its_bytes_stand(
    encoding: str, times: int, head: int, tail: int
) -> None:
    lines = ASCII_LINES * 6_000
    text = f"{lines[:head]}\n{TEXTS[encoding] * times}\n{lines[:tail]}"
    assert decode_text(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", WIDE)
@pytest.mark.parametrize("times", [1, 400])
@pytest.mark.parametrize("torn", [0, 1])
def test_wide_text_without_a_mark_is_read_in_any_script(
    encoding: str, times: int, torn: int
) -> None:
    text = f"# {WIDE[encoding] * times}\n\nend"
    assert decode_text(text.encode(encoding) + b"x"[:torn]).startswith(text)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200_000), st.integers(1, 60), st.integers(1, 12))
def test_a_character_that_a_cut_tears_costs_no_other(head: int, times: int, cut: int) -> None:
    """Both ends of a piece out of a longer file may stand inside a character."""
    content = (ASCII_LINES * 4_000)[:head].encode() + ("€ä𝄞 größer\n" * (times + 2)).encode()[
        cut : -4 - cut
    ]
    text = decode_text(content)
    assert text.count("\ufffd") <= 4 and text.count("größer") >= times and text.count("€") >= times


@pytest.mark.parametrize(
    ("torn", "text"),
    [
        (b"caf\xc3", "caf\ufffd"),
        ("a €".encode()[:-1], "a \ufffd"),
        ("ja ü, ja ä".encode()[:-1], "ja ü, ja \ufffd"),
    ],
)
@pytest.mark.parametrize("head", [0, 90_000])
def test_a_text_that_ends_inside_a_character_is_utf8(torn: bytes, text: str, head: int) -> None:
    before = (ASCII_LINES * 2_000)[:head]
    assert decode_text(before.encode() + torn) == before + text


@pytest.mark.parametrize(
    "word",
    [
        "sie sagte ja",
        "café",
        "Citroën",
        "señor",
        "Füße",
        "Ærø",
        "À la carte",
        "© 2024 Müller",
        "20 °C",
        "5 €",
        "“quoted”",
        "naïve – déjà vu",
    ],
)
@pytest.mark.parametrize("head", [0, 70_000])
def test_a_single_western_word_is_read_in_windows_1252(word: str, head: int) -> None:
    text = (ASCII_LINES * 2_000)[:head] + word
    assert decode_text(text.encode("cp1252")) == text


def test_lines_may_change_the_encoding() -> None:
    """As in a log that programs of different settings wrote."""
    lines = [f"größer {n}\n".encode("utf-8" if n % 3 else "cp1252") for n in range(90)]
    assert decode_text(b"".join(lines)) == "".join(f"größer {n}\n" for n in range(90))


def test_binary_behind_a_long_text_is_no_text() -> None:
    from livedex.pipeline.errors import NoTextError

    with pytest.raises(NoTextError):
        extract((ASCII_LINES * 2_000).encode() + bytes(range(256)) * 2_000, name="a.txt")
