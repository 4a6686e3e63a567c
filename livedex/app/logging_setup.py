"""Log lines: one line each, without control characters and without secrets, whatever was in the
message or the error.
"""

from __future__ import annotations

import logging

from livedex.pipeline.runtime.credential_masking import mask_credentials


class SingleLineFormatter(logging.Formatter):
    """Formats a record; of an error, each line of its trace by itself."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of the standard library
        return _shown(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # the name of the standard library
        # its own type is private
        trace = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(map(_shown, trace.splitlines()))

    def formatStack(self, stack_info: str) -> str:  # the name of the standard library
        return "\n".join(map(_shown, stack_info.splitlines()))


def _shown(line: str) -> str:
    return mask_credentials("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line))
