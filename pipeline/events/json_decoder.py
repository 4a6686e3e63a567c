"""JSON that others wrote, read strictly but for torn characters.

Programs that cut texts by units of UTF-16 write half a character as an escape of its own, which
orjson refuses, and no database takes. In a document such halves become U+FFFD everywhere
(`pipeline/extract/sanitizer.py`), and so they do here.
"""

from __future__ import annotations

import codecs
import re
from typing import Any

import orjson

_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    rb"(?<!\\)((?:\\\\)*+)(?:%s(?!%s)|(?<!%s)%s)" % (_HIGH, _LOW, _HIGH, _LOW)
)
"""The escape of half a character, and the escaped backslashes before it."""


def decode_json(raw: bytes) -> Any:
    """The value of a text in UTF-8, also behind a byte-order mark.

    Raises:
        orjson.JSONDecodeError: it is none.
    """
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as exc:
        if "surrogate" not in exc.msg:
            raise
    return orjson.loads(_LONE_SURROGATE.sub(rb"\1\\ufffd", raw))
