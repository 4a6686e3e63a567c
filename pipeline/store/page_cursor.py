"""Cursors of lists that are read page by page: the place of the last row, opaque to callers."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import orjson

from livedex.pipeline.errors import RejectedError


def encode_cursor(place: Sequence[str]) -> str:
    """Return the cursor of the page after this place."""
    return base64.urlsafe_b64encode(orjson.dumps(list(place))).decode().rstrip("=")


def decode_cursor(cursor: str, parts: int) -> list[str]:
    """Return the place that a cursor holds.

    Args:
        cursor: as a caller sends it.
        parts: number of its parts, >= 1.

    Raises:
        RejectedError: no page has this cursor.
    """
    try:
        place = orjson.loads(
            base64.b64decode(
                cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
            )
        )
    except ValueError as exc:
        raise unknown_cursor_error() from exc
    if not (
        isinstance(place, list)
        and len(place) == parts
        and all(isinstance(part, str) and is_storable(part) for part in place)
    ):
        raise unknown_cursor_error()
    return place


def unknown_cursor_error() -> RejectedError:
    """Return the refusal of a cursor that no page has."""
    return RejectedError(
        "the cursor is none that a page gave: begin with the first page", reason="invalid_cursor"
    )


def is_storable(name: str) -> bool:
    """Return whether PostgreSQL's text can hold a name: without NUL and lone surrogates."""
    return "\x00" not in name and not any("\ud800" <= c <= "\udfff" for c in name)
