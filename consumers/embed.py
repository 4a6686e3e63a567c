"""The consumer of the embed stage: texts of all documents under way are sent together."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from livedex.consumers.embedding_backfill import EmbeddingBackfill
from livedex.consumers.record_processor import OutcomeSink, RecordProcessor
from livedex.pipeline.embedding.embedder import Vector
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import ClaimLostError, LivedexError, RejectedError
from livedex.pipeline.events.event import Event
from livedex.pipeline.flow import stage
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.runtime.backoff import exponential_backoff_s
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.runtime.tenant_shares import TenantShares
from livedex.pipeline.stages.batched_store import BatchedMissingVectorLookup
from livedex.pipeline.stages.embed import ActiveGenerationProvider, PassageEmbedder, embed
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.passage_embedder import BatchedPassageEmbedder
from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog
from livedex.pipeline.store.embedding_claims import ClaimResult, EmbeddingClaims
from livedex.pipeline.store.protocol import VectorStore

log = logging.getLogger(__name__)

Key = tuple[TenantId, GenerationId, PassageId]
ClaimRequest = tuple[TenantId, GenerationId, tuple[PassageId, ...]]
# until it is looked at again what another process embeds, at first and at most
_OTHERS_S, _OTHERS_MOST_S = 0.05, 0.5
# of a request to a model in this process while several tenants are active: each waits for one
# request of the others
_SHARED_TEXTS = 32
_DRAIN_S = 15.0  # after the broker's; what is paid for is stored


class PassageRejectedError(RejectedError):
    """The model refuses a passage; the message names it."""

    def __init__(self, passage_id: PassageId, why: RejectedError) -> None:
        super().__init__(f"passage {passage_id}: {why}", reason=why.reason)
        self.passage_id = passage_id


class StoringPassageEmbedder:
    """`livedex.pipeline.stages.embed.PassageEmbedder`: embeds through a `BatchedPassageEmbedder`,
    whose vectors go to the store as soon as they are paid for.
    """

    def __init__(self, gatherer: BatchedPassageEmbedder[Key]) -> None:
        self._gatherer = gatherer

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> list[RejectedError]:
        """Returns once every passage has its vector in the store, but for those refused; each
        refusal names its passage.
        """
        return list((await self.embed_available(tenant_id, generation_id, passages)).values())

    async def embed_available(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> dict[PassageId, RejectedError]:
        """See `livedex.consumers.embedding_backfill.AvailablePassageEmbedder`; without claims
        nobody else embeds anything.
        """
        items = [((tenant_id, generation_id, passage_id), text) for passage_id, text in passages]
        refused = await self._gatherer.gather(items)
        return {
            key[2]: PassageRejectedError(key[2], refused[key]) for key, _ in items if key in refused
        }


class ClaimingPassageEmbedder:
    """Embeds what no other process embeds now, and waits for the others.

    Args:
        gatherer: does the work, once however many ask for a passage here.
    """

    def __init__(self, gatherer: PassageEmbedder, claims: EmbeddingClaims) -> None:
        self._gatherer = gatherer
        self._claims = claims
        self._asking: Counter[Key] = Counter()
        self._working: set[asyncio.Task[Any]] = set()
        self._take: MicroBatcher[ClaimRequest, ClaimResult] = MicroBatcher(
            self._take_all, group=lambda ask: ask[:2]
        )
        self._release: MicroBatcher[ClaimRequest, None] = MicroBatcher(
            self._release_all, group=lambda ask: ask[:2]
        )

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> list[RejectedError]:
        """See `livedex.pipeline.stages.embed.PassageEmbedder`."""
        waiting, refused, looks = dict(passages), list[RejectedError](), 0
        while waiting:
            try:
                taken, found = await self._embed_free(tenant_id, generation_id, waiting)
            except ClaimLostError:
                # this process stood still for so long that others may have embedded them: look
                # again
                continue
            refused += found
            waiting = {
                p: text
                for p, text in waiting.items()
                if p not in taken.claimed and p not in taken.already_embedded
            }
            if waiting:
                await asyncio.sleep(exponential_backoff_s(_OTHERS_S, looks + 1, _OTHERS_MOST_S))
                looks += 1
        return refused

    async def embed_available(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> dict[PassageId, RejectedError]:
        """See `livedex.consumers.embedding_backfill.AvailablePassageEmbedder`."""
        _, refused = await self._embed_free(tenant_id, generation_id, dict(passages))
        return {
            error.passage_id: error for error in refused if isinstance(error, PassageRejectedError)
        }

    async def _embed_free(
        self, tenant_id: TenantId, generation_id: GenerationId, texts: Mapping[PassageId, str]
    ) -> tuple[ClaimResult, list[RejectedError]]:
        """Embed what no other process embeds now; what was taken, and the refusals among it."""
        work = asyncio.create_task(self._claim_and_embed(tenant_id, generation_id, dict(texts)))
        self._keep(work)
        # who is cancelled leaves the claim to the request that is under way
        return await asyncio.shield(work)

    def _keep(self, work: asyncio.Task[Any]) -> None:
        self._working.add(work)
        work.add_done_callback(self._end)

    def _end(self, work: asyncio.Task[Any]) -> None:
        self._working.discard(work)
        if not work.cancelled():
            work.exception()  # told to who waits, where anybody still does

    async def drain(self) -> None:
        """Wait for what is under way, and let go of it."""
        while self._working:  # each lets go of what it held at its end
            await asyncio.gather(*self._working, return_exceptions=True)

    async def _claim_and_embed(
        self, tenant_id: TenantId, generation_id: GenerationId, texts: Mapping[PassageId, str]
    ) -> tuple[ClaimResult, list[RejectedError]]:
        """Claim some passages, embed what is ours of them, then let go of it.

        Never cancelled: a claim that nobody lets go of keeps others waiting.
        """
        keys = [(tenant_id, generation_id, passage) for passage in texts]
        # before they are claimed: from now on nobody here lets go of them
        self._asking.update(keys)
        claimed: Collection[PassageId] = texts  # where it is not known what was claimed, all of it
        try:
            taken = await self._take((tenant_id, generation_id, tuple(texts)))
            claimed = taken.claimed | taken.already_embedded
            ours = [(passage, text) for passage, text in texts.items() if passage in taken.claimed]
            return taken, await self._gatherer.embed(tenant_id, generation_id, ours) if ours else []
        finally:
            self._asking.subtract(keys)
            free = [key for key in keys if self._asking[key] <= 0]
            for key in free:
                del self._asking[key]
            done = tuple(passage for _, _, passage in free if passage in claimed)
            if done:
                # nobody here waits for it
                self._keep(asyncio.create_task(self._let_go((tenant_id, generation_id, done))))

    async def _let_go(self, ask: ClaimRequest) -> None:
        try:
            await self._release(ask)
        except LivedexError as exc:
            log.warning(
                "what is embedded cannot be let go of, so all that this process holds is: %s", exc
            )
            self._claims.abandon()  # else others would wait for as long as this process lives

    async def _take_all(self, asks: Sequence[ClaimRequest]) -> list[ClaimResult]:
        tenant_id, generation_id, _ = asks[0]
        taken = await self._claims.take(
            tenant_id, generation_id, list({passage for ask in asks for passage in ask[2]})
        )
        return [taken] * len(asks)

    async def _release_all(self, asks: Sequence[ClaimRequest]) -> list[None]:
        tenant_id, generation_id, _ = asks[0]
        done = {
            passage
            for ask in asks
            for passage in ask[2]
            if not self._asking[(tenant_id, generation_id, passage)]
        }
        # who has asked again since then lets go of it in turn
        await self._claims.release(tenant_id, generation_id, done)
        return [None] * len(asks)


class _ProcessTime:
    """`livedex.pipeline.stages.passage_embedder.RoundObserver`: charges the time of a model in
    this process to the tenants whose texts it embeds.
    """

    def __init__(self, shares: TenantShares) -> None:
        self._shares = shares

    def most_texts(self) -> int | None:
        return _SHARED_TEXTS if self._shares.are_several_active() else None

    def took(self, owners: Mapping[Hashable, int], seconds: float) -> None:
        total = sum(owners.values())
        for owner, texts in owners.items():
            self._shares.charge(str(owner), "ingest", seconds * texts / total)


@asynccontextmanager
async def open_passage_embedder(
    store: VectorStore,
    embeddings: EmbeddingService,
    claims: EmbeddingClaims | None = None,
    shares: TenantShares | None = None,
) -> AsyncIterator[StoringPassageEmbedder | ClaimingPassageEmbedder]:
    """A gatherer for as long as the block lasts; what is under way at its end is stored.

    Args:
        claims: None where no other process embeds.
        shares: of tenants in the time of this process, which a model in it takes; None: nobody else
            needs it.
    """

    async def keep(vectors: Sequence[tuple[Key, Vector]]) -> None:
        groups: dict[tuple[TenantId, GenerationId], dict[PassageId, Vector]] = {}
        for (tenant_id, generation_id, passage_id), vector in vectors:
            groups.setdefault((tenant_id, generation_id), {})[passage_id] = vector
        for (tenant_id, generation_id), group in groups.items():
            await store.upsert_vectors(
                tenant_id, generation_id, group, durable=not embeddings.in_process
            )  # what was paid for is not lost again

    async with AsyncExitStack() as stack:
        gatherer: BatchedPassageEmbedder[Key] = BatchedPassageEmbedder(
            embeddings,
            keep,
            permit=None if claims is None else claims.check,
            share=lambda key: key[0],
            observer=_ProcessTime(shares) if shares is not None and embeddings.in_process else None,
        )
        made: StoringPassageEmbedder | ClaimingPassageEmbedder = StoringPassageEmbedder(gatherer)
        if claims is not None:
            made = claiming = ClaimingPassageEmbedder(made, claims)
            stack.push_async_callback(claiming.drain)
        stack.push_async_callback(gatherer.drain, _DRAIN_S)
        yield made


@asynccontextmanager
async def open_embed_processor(
    store: VectorStore,
    generations: ActiveGenerationProvider,
    embeddings: EmbeddingService,
    claims: EmbeddingClaims | None,
    metrics: Metrics,
    outlet: OutcomeSink,
    on_pause: Callable[[str, str | None], None],
    shares: TenantShares,
    backlog: GenerationBacklog | None = None,
) -> AsyncIterator[RecordProcessor]:
    """The embed stage.

    Args:
        backlog: what was stored under another model and is embedded again beside it; None: nothing
            is.
    """
    manifests = BatchedMissingVectorLookup(store)
    async with (
        open_passage_embedder(store, embeddings, claims, shares) as gatherer,
        _filling(backlog, generations, gatherer, embeddings),
    ):

        async def run(event: Event[Any]) -> Forward | Finished:
            return await embed(event, store=manifests, generations=generations, gatherer=gatherer)

        yield RecordProcessor(stage("embed"), run, outlet, metrics, on_pause, shares)


@asynccontextmanager
async def _filling(
    backlog: GenerationBacklog | None,
    generations: ActiveGenerationProvider,
    gatherer: StoringPassageEmbedder | ClaimingPassageEmbedder,
    embeddings: EmbeddingService,
) -> AsyncIterator[None]:
    """Embed what is stored and lacks vectors, for as long as the block lasts."""
    if backlog is None:
        yield
        return
    filler = EmbeddingBackfill(
        backlog, generations, gatherer, at_once=max(1, embeddings.limits.concurrency - 1)
    )
    task = asyncio.create_task(filler.run(), name="embed what is stored")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
