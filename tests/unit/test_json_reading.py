"""JSON of others: strict, but half a character is one that is replaced."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedex.pipeline.events.json_decoder import decode_json


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"math \ud835\udc00 end", "math 𝐀 end"),
        (r"\ud83d", "\ufffd"),
        (r"a\udc00b", "a\ufffdb"),
        (r"\ud800\ud800\udc00", "\ufffd\U00010000"),
        (r"\ud800\udc00\udc00", "\U00010000\ufffd"),
        (r"\ud800\ud801", "\ufffd\ufffd"),
        (r"\uD83D\n\uDE00", "\ufffd\n\ufffd"),
        (r"\\ud83d", "\\ud83d"),
        (r"\\\ud83d", "\\\ufffd"),
        (r"\\ud83d \\\\\ud83d\\", "\\ud83d \\\\\ufffd\\"),
    ],
)
def test_half_a_character_is_replaced_and_everything_else_stays(written: str, read: str) -> None:
    assert decode_json(b'{"' + written.encode() + b'": ["' + written.encode() + b'"]}') == {
        read: [read]
    }


@given(
    st.lists(
        st.sampled_from(["\ud83d", "\ude00", "\\", "u", "d83d", '"', "é", "\n", "😀"]), max_size=12
    )
)
def test_it_is_what_the_standard_library_reads_with_its_halves_replaced(parts: list[str]) -> None:
    text = "".join(parts)
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert decode_json(json.dumps(text).encode()) == joined


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"NaN",
        b'"\xed\xa0\x80"',
        b'"\\ud83d',
        b'"\\ud83d" x',
        b'["\\ud83d", NaN]',
        b'"\\ud83',
        b"[" * 5000,
    ],
)
def test_everything_else_is_as_strict_as_ever(raw: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        decode_json(raw)
