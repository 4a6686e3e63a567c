"""Cursors of paginated lists: the sort key of the last row, opaque to callers."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import orjson

from livedex.pipeline.errors import RejectedError


def encode_cursor(place: Sequence[str]) -> str:
    """Return the cursor of the next page.

    Args:
        place: sort key of the last row.
    """
    return base64.urlsafe_b64encode(orjson.dumps(list(place))).decode().rstrip("=")


def decode_cursor(cursor: str, parts: int) -> list[str]:
    """Return the sort key in a cursor.

    Args:
        cursor: from a caller.
        parts: number of parts of the sort key, >= 1.

    Raises:
        InvalidCursorError: the cursor does not come from a page.
    """
    try:
        place = orjson.loads(
            base64.b64decode(
                cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
            )
        )
    except ValueError as exc:
        raise InvalidCursorError from exc
    if not (
        isinstance(place, list)
        and len(place) == parts
        and all(isinstance(part, str) and is_storable(part) for part in place)
    ):
        raise InvalidCursorError
    return place


class InvalidCursorError(RejectedError):
    """A cursor that does not come from a page."""

    def __init__(self) -> None:
        super().__init__(
            "the cursor is invalid: begin with the first page", reason="invalid_cursor"
        )


def is_storable(name: str) -> bool:
    """Return whether PostgreSQL can store a text: it contains no NUL and no lone surrogate."""
    return "\x00" not in name and not any("\ud800" <= c <= "\udfff" for c in name)
