"""Extract a provider's error message in a form that a dead letter may contain: short, on one line,
without credentials and without the texts of the request.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from livedex.pipeline.embedding.provider_json import parse_provider_json
from livedex.pipeline.runtime.credential_masking import mask_credentials

MAX_CHARACTERS = 240
_MAX_BYTES, _PAGE_BYTES = 65_536, 16_384
_GRAM = 12  # a shared run of so many characters counts as a quotation of a text
_LEFT_OUT = "…"
_MARKUP = re.compile(
    r"<(script|style)\b.*?(</\1\s*>|$)|<!--.*?(-->|$)|<[^<>]{0,2000}>", re.I | re.S
)
_LONG_SECRET = re.compile(r"\b(?=[A-Za-z0-9_-]*\d)(?=[A-Za-z0-9_-]*[A-Za-z])[A-Za-z0-9_-]{32,}\b")
_NAMED = ("message", "detail", "error_message", "error_description", "msg", "reason", "title")


def error_message(body: bytes, texts: Sequence[str] = (), *secrets: str | None) -> str:
    """Return the message in the body of an error response; empty without one.

    Args:
        body: JSON of any shape, HTML or plain text.
        texts: of the request; the message quotes at most a few characters of them.
        *secrets: that the message must not contain.
    """
    head = body[:_MAX_BYTES]
    try:
        found = _said(parse_provider_json(head), 0)
    except ValueError:
        text = head[:_PAGE_BYTES].decode("utf-8", "replace")
        found = html.unescape(_MARKUP.sub(" ", text)) if "<" in text else text
    return redact(found or "", texts, *secrets)


def redact(said: str, texts: Sequence[str] = (), *secrets: str | None) -> str:
    """Return a provider's words without secrets and quotations.

    Args:
        said: the words.
        texts: of the request; the result quotes at most a few characters of them.
        *secrets: that the result must not contain.
    """
    line = " ".join(
        "".join(c if c.isprintable() else " " for c in said[: 8 * MAX_CHARACTERS]).split()
    )
    line = _LONG_SECRET.sub("***", mask_credentials(line, *secrets))
    line = _without_texts(line[: 2 * MAX_CHARACTERS], texts)
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 1] + _LEFT_OUT


def _said(answer: Any, depth: int) -> str | None:
    """Return the message in a parsed body; None without one."""
    if isinstance(answer, str):
        return answer
    if depth > 4:
        return None
    if isinstance(answer, list):
        found = [word for item in answer[:4] if (word := _said(item, depth + 1))]
        return "; ".join(found) or None
    if isinstance(answer, dict):
        for name in ("error", "errors", *_NAMED):
            if (word := _said(answer.get(name), depth + 1)) is not None:
                return word
        return ""
    return None


def _without_texts(line: str, texts: Sequence[str]) -> str:
    """Remove from a line every run of `_GRAM` or more characters that it shares with the texts."""
    flat = "\n".join(" ".join(text.split()) for text in texts)  # the line has no line end
    hidden = bytearray(len(line))
    for at in range(len(line) - _GRAM + 1):
        gram = line[at : at + _GRAM]
        if gram in flat:
            hidden[at : at + _GRAM] = b"\1" * _GRAM
    kept, open_ = [], False
    for character, is_hidden in zip(line, hidden, strict=True):
        if not is_hidden:
            kept.append(character)
        elif not open_:
            kept.append(_LEFT_OUT)
        open_ = bool(is_hidden)
    return "".join(kept)
