"""The consumer of the embed stage: texts of all documents under way are sent together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from consumers.settle import Outlet, Settler
from pipeline.embedding.gather import TextGatherer
from pipeline.embedding.protocol import Vector
from pipeline.embedding.service import EmbeddingService
from pipeline.errors import RejectedError
from pipeline.events import Event
from pipeline.flow import stage
from pipeline.metrics import Metrics
from pipeline.model import GenerationId, PassageId, TenantId
from pipeline.stages.embed import Gatherer, Generations, embed
from pipeline.stages.keeping import MissingVectors
from pipeline.stages.outcome import Finished, Forward
from pipeline.store.protocol import VectorStore

Key = tuple[TenantId, GenerationId, PassageId]
_DRAIN_S = 60.0


class StoringGatherer:
    """`pipeline.stages.embed.Gatherer`: embeds through a `TextGatherer`, whose vectors go to the store as soon as they are paid for."""

    def __init__(self, gatherer: TextGatherer[Key]) -> None:
        self._gatherer = gatherer

    async def embed(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Sequence[tuple[PassageId, str]]
    ) -> list[RejectedError]:
        """Returns once every passage has its vector in the store, but for those refused; each refusal names its passage."""
        items = [((tenant_id, generation_id, passage_id), text) for passage_id, text in passages]
        refused = await self._gatherer.gather(items)
        return [RejectedError(f"passage {key[2]}: {refused[key]}", reason=refused[key].reason) for key, _ in items if key in refused]


@asynccontextmanager
async def open_gatherer(store: VectorStore, embeddings: EmbeddingService) -> AsyncIterator[Gatherer]:
    """A gatherer for as long as the block lasts; what is under way at its end is stored."""

    async def keep(vectors: Sequence[tuple[Key, Vector]]) -> None:
        groups: dict[tuple[TenantId, GenerationId], dict[PassageId, Vector]] = {}
        for (tenant_id, generation_id, passage_id), vector in vectors:
            groups.setdefault((tenant_id, generation_id), {})[passage_id] = vector
        for (tenant_id, generation_id), group in groups.items():
            await store.upsert(tenant_id, generation_id, group)

    gatherer: TextGatherer[Key] = TextGatherer(embeddings, keep)
    try:
        yield StoringGatherer(gatherer)
    finally:
        await gatherer.drain(_DRAIN_S)


@asynccontextmanager
async def embed_settler(
    store: VectorStore, generations: Generations, embeddings: EmbeddingService, metrics: Metrics, outlet: Outlet,
    on_pause: Callable[[str, str | None], None],
) -> AsyncIterator[Settler]:  # fmt: skip
    """The embed stage."""
    manifests = MissingVectors(store)
    async with open_gatherer(store, embeddings) as gatherer:

        async def run(event: Event[Any]) -> Forward | Finished:
            return await embed(event, store=manifests, generations=generations, gatherer=gatherer)

        yield Settler(stage("embed"), run, outlet, metrics, on_pause)
