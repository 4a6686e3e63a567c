"""Removing a source with its documents, which are deleted through the pipeline as every other."""

from __future__ import annotations

import time

from livedex.pipeline.events.event import Changed
from livedex.pipeline.ingest.ingester import Change, ChangeSink
from livedex.pipeline.model import TenantId
from livedex.pipeline.store.documents.version_allocator import VERSION_LIMIT
from livedex.pipeline.store.source_store import SourceStore

_AT_ONCE = 500


async def remove_source(
    sources: SourceStore, intake: ChangeSink, tenant_id: TenantId, name: str
) -> int:
    """Publish a delete of every document of a source, and forget the source.

    Returns:
        How many deletes were published.

    Raises:
        OutageError, RetryableError: the broker or the database is away; the rest is still there.
    """
    deleted, above = 0, ""
    while documents := await sources.documents(tenant_id, name, above, _AT_ONCE):
        await intake.accept(
            [
                Change(
                    Changed(
                        tenant_id=tenant_id,
                        document_id=each.document_id,
                        version=min(max(time.time_ns(), each.newest + 1), VERSION_LIMIT - 1),
                        deleted=True,
                        collection=each.collection,
                        source=name,
                    )
                )
                for each in documents
            ]
        )
        deleted, above = deleted + len(documents), documents[-1].document_id
    await sources.forget(tenant_id, name)
    return deleted
