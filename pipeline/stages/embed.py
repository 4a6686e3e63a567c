"""The embed stage: vectors for a manifest's passages that the active generation lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from livedex.pipeline.costs.charges import VersionAccount
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import EMBEDDED, Event, ManifestRef, next_stage_event
from livedex.pipeline.model import DocumentId, Fence, GenerationId, PassageId, TenantId, shorten_id
from livedex.pipeline.stages.outcome import Finished, Forward


class ActiveGenerationProvider(Protocol):
    """Knows the active embedding generation."""

    async def active(self) -> GenerationId:
        """Return the active generation.

        Raises:
            OutageError: the dimensions of the model are not known yet.
        """
        ...


class PassageEmbedder(Protocol):
    """Embeds the passages of many documents together, each passage once, and stores their
    vectors.
    """

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        *,
        account: VersionAccount | None = None,
    ) -> list[RejectedError]:
        """Embed passages; return once every vector is stored.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts.
            account: the version that they are embedded for.

        Returns:
            an error for each passage that the model rejects.

        Raises:
            OutageError: the provider or the store is unavailable.
        """
        ...


class MissingVectorLookup(Protocol):
    """Looks up the passages of a manifest without a vector."""

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
    """Embed the passages of a manifest that have no vector.

    Args:
        event: of the manifest.
        store: looks up missing vectors.
        generations: the active embedding generation.
        embedder: embeds and stores.

    Raises:
        RejectedError: the model rejects a passage; the message names it.
        LivedexError: as the store and the embedder do.
    """
    tenant_id, document_id, fence = event.tenant_id, event.document_id, event.data.fence
    generation_id = await generations.active()
    passages = await store.missing_vectors(tenant_id, document_id, fence, generation_id)
    if passages is None:
        return Finished(superseded=True)
    if passages:
        account = VersionAccount(document_id, fence)
        refused = await embedder.embed(tenant_id, generation_id, passages, account=account)
        if refused:
            raise RejectedError(
                f"{shorten_id(document_id)} v{fence.version}: {len(refused)} of "
                f"{len(passages)} new passages refused: {refused[0]}",
                reason=refused[0].reason,
            )
    return Forward(next_stage_event(EMBEDDED, event, fence))
