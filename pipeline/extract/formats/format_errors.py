"""Errors of files that cannot be read, with what to do."""

from __future__ import annotations

from livedex.pipeline.errors import NoTextError


class CorruptFileError(NoTextError):
    """The file is damaged."""

    def __init__(self) -> None:
        super().__init__(
            "corrupt", "The file is damaged or incomplete: save it again, or replace it."
        )


class EncryptedFileError(NoTextError):
    """The file needs a password."""

    def __init__(self) -> None:
        super().__init__("encrypted", "The file needs a password: save it without one.")
