"""The sync stage: one transaction makes a manifest the visible version of its document."""

from __future__ import annotations

from pipeline.events import SYNCED, Event, Step, step
from pipeline.stages.embed import Generations
from pipeline.stages.outcome import Finished, Forward
from pipeline.store.protocol import VectorStore


async def sync(event: Event[Step], *, store: VectorStore, generations: Generations) -> Forward | Finished:
    """Make a version visible, unless a newer one is.

    Returns:
        Forward with the event for whoever waits, or Finished when it was superseded.

    Raises:
        OutageError, RetryableError, RejectedError: as the store does.
    """
    fence = event.data.fence
    done = await store.sync_document(event.tenant_id, event.document_id, fence, await generations.active())
    return Forward(step(SYNCED, event, fence)) if done.current else Finished(superseded=True)
