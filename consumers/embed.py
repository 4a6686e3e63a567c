"""Build the record processor of the embed stage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from livedex.consumers.claimed_passage_embedder import ClaimedPassageEmbedder
from livedex.consumers.embedding_backfill import EmbeddingBackfill
from livedex.consumers.record_processor import RecordProcessor
from livedex.consumers.stage_dependencies import StageDependencies
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.batched_store import BatchedMissingVectorLookup
from livedex.pipeline.stages.embed import embed
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.passage_embedder import BatchedPassageEmbedder
from livedex.pipeline.store.embedding_claims import EmbeddingClaims
from livedex.pipeline.store.protocol import VectorStore

# texts of a request to an in-process model while several tenants are active: each tenant waits for
# one request of the others
_SHARED_TEXTS = 32
_DRAIN_S = 15.0  # after the broker's deadline; embedded vectors are stored


class _ProcessTimeObserver:
    """Charges the time of an in-process model to the tenants whose texts it embeds.

    Implements `livedex.pipeline.stages.passage_embedder.RequestObserver`.
    """

    def __init__(self, shares: TenantShares) -> None:
        self._shares = shares

    def max_texts(self) -> int | None:
        return _SHARED_TEXTS if self._shares.are_several_active() else None

    def record(self, texts_by_tenant: Mapping[Hashable, int], seconds: float) -> None:
        total = sum(texts_by_tenant.values())
        for tenant, texts in texts_by_tenant.items():
            self._shares.charge(str(tenant), "ingest", seconds * texts / total)


@asynccontextmanager
async def open_passage_embedder(
    store: VectorStore,
    embeddings: EmbeddingService,
    claims: EmbeddingClaims | None = None,
    shares: TenantShares | None = None,
) -> AsyncIterator[BatchedPassageEmbedder | ClaimedPassageEmbedder]:
    """Open a passage embedder; at the end of the block, vectors in flight are stored.

    Args:
        store: receives the vectors.
        embeddings: embeds.
        claims: None if no other process embeds.
        shares: charged with the time of an in-process model; None charges nobody.
    """
    observer = (
        _ProcessTimeObserver(shares) if shares is not None and embeddings.in_process else None
    )
    async with AsyncExitStack() as stack:
        batched = BatchedPassageEmbedder(
            embeddings, store, permit=None if claims is None else claims.check, observer=observer
        )
        embedder: BatchedPassageEmbedder | ClaimedPassageEmbedder = batched
        if claims is not None:
            embedder = claimed = ClaimedPassageEmbedder(batched, claims)
            stack.push_async_callback(claimed.drain)
        stack.push_async_callback(batched.drain, _DRAIN_S)
        yield embedder


@asynccontextmanager
async def open_embed_processor(dependencies: StageDependencies) -> AsyncIterator[RecordProcessor]:
    """Open the embed stage and the backfill of stored passages."""
    store, generations = dependencies.store, dependencies.generations
    missing_vectors = BatchedMissingVectorLookup(store)
    async with (
        open_passage_embedder(
            store, dependencies.embeddings, dependencies.claims, dependencies.shares
        ) as embedder,
        _run_backfill(dependencies, embedder),
    ):

        async def run(event: Event[Any]) -> Forward | Finished:
            return await embed(
                event, store=missing_vectors, generations=generations, embedder=embedder
            )

        yield dependencies.record_processor(stage("embed"), run)


@asynccontextmanager
async def _run_backfill(
    dependencies: StageDependencies, embedder: BatchedPassageEmbedder | ClaimedPassageEmbedder
) -> AsyncIterator[None]:
    """Embed stored passages without a vector until the block ends."""
    if dependencies.backlog is None:
        yield
        return
    backfill = EmbeddingBackfill(
        dependencies.backlog,
        dependencies.generations,
        embedder,
        max_concurrent=max(1, dependencies.embeddings.limits.concurrency - 1),
    )
    task = asyncio.create_task(backfill.run(), name="embedding backfill")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
