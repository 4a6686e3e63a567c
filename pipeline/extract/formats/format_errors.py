"""Errors of files that cannot be read, with what to do."""

from __future__ import annotations

from livedex.pipeline.errors import NoTextError


def corrupt_error() -> NoTextError:
    """Return the error for a damaged file."""
    return NoTextError(
        "corrupt", "The file is damaged or incomplete: save it again, or replace it."
    )


def encrypted_error() -> NoTextError:
    """Return the error for a file with a password."""
    return NoTextError("encrypted", "The file needs a password: save it without one.")
