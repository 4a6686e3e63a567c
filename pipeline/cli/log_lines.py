"""Log lines: one line each, without control characters and without secrets, whatever was in the message or the error."""

from __future__ import annotations

import logging
import re

_SECRETS = (
    (re.compile(r"(ldx_[0-9a-f]{1,12})_[0-9A-Za-z_-]+"), r"\1_…"),  # API keys; their ids are told
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]+"), r"\1 …"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*"), "…"),  # tokens
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s@/]+@"), r"\1:…@"),  # passwords in URLs
    (re.compile(r"(?i)\b(x-api-key|api[_-]?key|password|secret|token)(\W{0,2}[=:]\W{0,3})[^\s'\",;&)}\]]{6,}"), r"\1\2…"),
)


def without_secrets(text: str) -> str:
    """The text with whatever looks like a credential left out."""
    for pattern, instead in _SECRETS:
        text = pattern.sub(instead, text)
    return text


class OneLine(logging.Formatter):
    """Formats a record; of an error, each line of its trace by itself."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of the standard library
        return _shown(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # the name of the standard library
        return "\n".join(map(_shown, super().formatException(ei).splitlines()))  # type: ignore[arg-type]  # its own type is private

    def formatStack(self, stack_info: str) -> str:  # the name of the standard library
        return "\n".join(map(_shown, stack_info.splitlines()))


def _shown(line: str) -> str:
    return without_secrets("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line))
