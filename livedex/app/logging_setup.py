"""Format log records, as text or as JSON, without control characters and without secrets."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import orjson

from livedex.pipeline.runtime.credential_masking import mask_credentials


class SingleLineFormatter(logging.Formatter):
    """Formats a record; of an error, each line of its trace by itself."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # the name of the standard library
        """Return the message in one line."""
        return _shown(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # the name of the standard library
        """Return the trace, each of its lines by itself."""
        # its own type is private
        trace = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(map(_shown, trace.splitlines()))

    def formatStack(self, stack_info: str) -> str:  # the name of the standard library
        """Return the stack, each of its lines by itself."""
        return "\n".join(map(_shown, stack_info.splitlines()))


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON object in a line: `time`, `level`, `logger`, `message`, and
    `error` with the trace of an exception.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a JSON object."""
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_credentials(record.getMessage()),
        }
        if record.exc_info:
            found["error"] = mask_credentials(self.formatException(record.exc_info))
        printable = {
            name: value.encode("utf-8", "replace").decode() for name, value in found.items()
        }
        return orjson.dumps(printable).decode()


def _shown(line: str) -> str:
    return mask_credentials("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in line))
