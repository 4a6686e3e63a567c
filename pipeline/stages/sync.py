"""The sync stage: one transaction makes a manifest the visible version of its document."""

from __future__ import annotations

from typing import Protocol

from livedex.pipeline.events.event import Event, ManifestRef, synced_event
from livedex.pipeline.model import DocumentId, Fence, GenerationId, TenantId
from livedex.pipeline.stages.embed import ActiveGenerationProvider
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.store.drafts import SyncResult


class VersionPublisher(Protocol):
    """Makes versions visible."""

    async def sync_document(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId | None,
    ) -> SyncResult:
        """See `livedex.pipeline.store.protocol.VectorStore`."""
        ...


async def sync(
    event: Event[ManifestRef], *, store: VersionPublisher, generations: ActiveGenerationProvider
) -> Forward | Finished:
    """Atomically publish a version unless a newer one is visible.

    Args:
        event: of the version.
        store: publishes it.
        generations: the active embedding generation.

    Returns:
        Forward with the event `livedex.synced`, or Finished if the version is superseded.

    Raises:
        LivedexError: as the store does.
    """
    fence = event.data.fence
    done = await store.sync_document(
        event.tenant_id, event.document_id, fence, await generations.active()
    )
    if not done.current:
        return Finished(superseded=True)
    bill = None if done.bill is None else done.bill.as_object()
    return Forward(synced_event(event, fence, done.chunks, bill))
