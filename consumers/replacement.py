"""Whether a newer change of a document makes an older one pointless before either was processed."""

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
    """Return whether the older change can be skipped for the newer one without a loss, whatever
    becomes of the newer one.

    Only where both fetch the same content from the same place with the same rights. What a fetch
    gets is what is there now, so the newer one finds all that the older one could find. A newer
    change with a content of its own proves nothing: it may end as a dead letter, and then the older
    one is what is left.
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
