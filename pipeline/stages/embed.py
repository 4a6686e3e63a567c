"""The embed stage: vectors for a manifest's passages that the active generation lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import EMBEDDED, Event, ManifestRef, next_stage_event
from livedex.pipeline.model import DocumentId, Fence, GenerationId, PassageId, TenantId, shorten_id
from livedex.pipeline.stages.outcome import Finished, Forward


class ActiveGenerationProvider(Protocol):
    """Which vector space is active."""

    async def active(self) -> GenerationId:
        """The active generation.

        Raises:
            OutageError: the model could not be asked for its dimensions yet.
        """
        ...


class PassageEmbedder(Protocol):
    """Embeds the texts of many documents together, each text once, and keeps every vector as soon
    as it is paid for.
    """

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> list[RejectedError]:
        """Returns once every passage has its vector in the store, but for those that the provider
        refuses.

        Raises:
            OutageError: the provider, or the store, is away.
        """
        ...


class MissingVectorLookup(Protocol):
    """Knows what manifests lack."""

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> list[tuple[PassageId, str]] | None:
        """See `livedex.pipeline.store.protocol.VectorStore`."""
        ...


async def embed(
    event: Event[ManifestRef],
    *,
    store: MissingVectorLookup,
    generations: ActiveGenerationProvider,
    embedder: PassageEmbedder,
) -> Forward | Finished:
    """Embed what a manifest lacks.

    Raises:
        RejectedError: the provider refuses a text of the document; the message names its place.
        OutageError, RetryableError: as the store and the gatherer do.
    """
    tenant_id, document_id, fence = event.tenant_id, event.document_id, event.data.fence
    generation_id = await generations.active()
    passages = await store.missing_vectors(tenant_id, document_id, fence, generation_id)
    if passages is None:
        return Finished(superseded=True)
    if passages:
        refused = await embedder.embed(tenant_id, generation_id, passages)
        if refused:
            raise RejectedError(
                f"{shorten_id(document_id)} v{fence.version}: {len(refused)} of "
                f"{len(passages)} new passages refused: {refused[0]}",
                reason=refused[0].reason,
            )
    return Forward(next_stage_event(EMBEDDED, event, fence))
