"""Decide whether a newer change supersedes an unprocessed older one."""

from __future__ import annotations

from livedex.pipeline.events.event import Changed

_EQUAL = (
    "tenant_id",
    "document_id",
    "url",
    "source",
    "acl",
    "name",
    "mime_type",
    "gone_if_missing",
    "seen_at",
)


def supersedes(newer: Changed, older: Changed) -> bool:
    """Return whether the older change can be skipped, whatever the outcome of the newer one.

    This holds only if both fetch the same URL with the same access rights: a fetch returns the
    present content, so the newer one finds what the older one would find. A newer change with
    content of its own may become a dead letter, and then the older one is needed.

    Args:
        newer: of the same key.
        older: not processed yet.
    """
    if (
        older.url is None
        or older.deleted
        or newer.deleted
        or older.listing
        or newer.listing
        or older.any_version
        or newer.any_version
    ):
        return False
    return newer.version > older.version and all(
        getattr(newer, name) == getattr(older, name) for name in _EQUAL
    )
