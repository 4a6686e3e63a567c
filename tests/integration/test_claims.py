"""Claims on passages that are embedded, by what two processes would do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import asyncpg
import pytest

from livedex.consumers.claimed_passage_embedder import ClaimedPassageEmbedder
from livedex.consumers.embed import open_passage_embedder
from livedex.pipeline.embedding.embedder import EmbedLimits
from livedex.pipeline.embedding.fake_embedder import FakeEmbedder
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import ClaimLostError, OutageError, RejectedError
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.store import claim_lease
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.documents.pgvector_store import PgVectorStore
from livedex.pipeline.store.embedding_claims import EmbeddingClaims, open_embedding_claims

TENANT = TenantId("t")


class Counted(EmbeddingClaims):
    """Claims, counting how often some are let go of."""

    releases = 0

    async def release(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Collection[PassageId]
    ) -> None:
        self.releases += 1
        await super().release(tenant_id, generation_id, passages)


class Embedding:
    """Embeds nothing, and notes for whom.

    Attributes:
        ends: one for each request; it ends once that is set.
        at_once: requests end by themselves.
    """

    def __init__(self, *, at_once: bool = True) -> None:
        self.asked: list[PassageId] = []
        self.ends: list[asyncio.Event] = []
        self.at_once = at_once

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        **_: object,
    ) -> list[RejectedError]:
        self.asked += [passage for passage, _ in passages]
        self.ends.append(asyncio.Event())
        if self.at_once:
            asyncio.get_running_loop().call_later(0.05, self.ends[-1].set)
        await self.ends[-1].wait()
        return []


@pytest.fixture
async def generation(database: Database) -> GenerationId:
    return await PgVectorStore(database).ensure_generation("test", 8)


@pytest.fixture
async def claims(database: Database) -> AsyncIterator[Counted]:
    found = Counted(database)
    yield found
    await found.close()


async def test_passages_of_many_documents_are_let_go_of_together(
    claims: Counted, generation: GenerationId, owner: asyncpg.Connection
) -> None:
    inner = Embedding()
    gatherer = ClaimedPassageEmbedder(inner, claims)
    await asyncio.gather(
        *(gatherer.embed(TENANT, generation, [(PassageId(n), "text")]) for n in range(1, 31))
    )
    assert sorted(inner.asked) == list(range(1, 31))
    async with asyncio.timeout(30):
        while await owner.fetchval("select count(*) from embedding_claims"):
            await asyncio.sleep(0.01)  # nobody waits for a claim to be let go of
    assert claims.releases < 10


async def test_a_passage_that_another_holds_stays_with_it(
    claims: Counted, generation: GenerationId, database: Database
) -> None:
    async with open_embedding_claims(database) as others:
        assert (await others.take(TENANT, generation, [PassageId(1)])).claimed == {1}
        assert (await claims.take(TENANT, generation, [PassageId(1), PassageId(2)])).claimed == {2}
        await claims.release(TENANT, generation, [PassageId(1), PassageId(2)])
        assert (await claims.take(TENANT, generation, [PassageId(1)])).claimed == frozenset()
        await others.release(TENANT, generation, [PassageId(1)])
        assert (await claims.take(TENANT, generation, [PassageId(1)])).claimed == {1}


async def test_a_passage_that_is_asked_for_again_stays_claimed_while_it_is_embedded(
    claims: Counted, generation: GenerationId, database: Database
) -> None:
    inner = Embedding(at_once=False)
    gatherer = ClaimedPassageEmbedder(inner, claims)
    async with open_embedding_claims(database) as others, asyncio.timeout(30):

        async def ask() -> asyncio.Task[list[RejectedError]]:
            """Another request for the passage, once it is under way."""
            before = len(inner.ends)
            task = asyncio.create_task(gatherer.embed(TENANT, generation, [(PassageId(1), "text")]))
            while len(inner.ends) == before:
                await asyncio.sleep(0.001)
            return task

        first, second = await ask(), await ask()
        inner.ends[0].set()
        await first
        await asyncio.sleep(0.05)
        assert not claims.releases
        assert (await others.take(TENANT, generation, [PassageId(1)])).claimed == frozenset()
        inner.ends[1].set()
        await second
        while (await others.take(TENANT, generation, [PassageId(1)])).claimed != {1}:
            await asyncio.sleep(0.01)


_LEASE_S = 1.5


def frozen(claims: EmbeddingClaims) -> None:
    """Let a process stand still: it renews nothing, and does not know it."""
    if claims._renewing is not None:
        claims._renewing.cancel()


async def taken_over(
    claims: EmbeddingClaims, generation: GenerationId, *passages: PassageId
) -> None:
    """Wait until claims are taken over from who does not renew them."""
    async with asyncio.timeout(30):
        while (await claims.take(TENANT, generation, passages)).claimed != set(passages):
            await asyncio.sleep(0.05)


async def test_a_claim_outlives_its_lease_while_its_holder_renews_it_and_no_longer(
    database: Database, generation: GenerationId
) -> None:
    ours, theirs = (
        EmbeddingClaims(database, lease_s=_LEASE_S),
        EmbeddingClaims(database, lease_s=_LEASE_S),
    )
    try:
        assert (await ours.take(TENANT, generation, [PassageId(1)])).claimed == {1}
        await asyncio.sleep(2 * _LEASE_S)
        assert (await theirs.take(TENANT, generation, [PassageId(1)])).claimed == frozenset(), (
            "it is renewed"
        )
        frozen(ours)
        await taken_over(theirs, generation, PassageId(1))
    finally:
        await ours.close()
        await theirs.close()


async def test_a_holder_whose_lease_expired_sends_nothing_and_takes_nothing_back(
    database: Database, generation: GenerationId
) -> None:
    ours, theirs = (
        EmbeddingClaims(database, lease_s=_LEASE_S),
        EmbeddingClaims(database, lease_s=_LEASE_S),
    )
    key = (TENANT, generation, PassageId(1))
    try:
        await ours.take(TENANT, generation, [PassageId(1)])
        ours.check([key])
        frozen(ours)
        await taken_over(theirs, generation, PassageId(1))
        with pytest.raises(ClaimLostError):
            ours.check([key])
        assert (await ours.take(TENANT, generation, [PassageId(2)])).claimed == {2}, (
            "under a new number"
        )
        with pytest.raises(ClaimLostError):
            ours.check([key])
        assert (await ours.take(TENANT, generation, [PassageId(1)])).claimed == frozenset()
        await ours.release(TENANT, generation, [PassageId(1)])
        assert (await ours.take(TENANT, generation, [PassageId(1)])).claimed == frozenset(), (
            "what is another's cannot be released"
        )
        theirs.check([key])
    finally:
        await ours.close()
        await theirs.close()


async def test_a_process_that_gives_its_claims_up_keeps_nobody_waiting(
    database: Database, generation: GenerationId
) -> None:
    ours, theirs = (
        EmbeddingClaims(database, lease_s=_LEASE_S),
        EmbeddingClaims(database, lease_s=_LEASE_S),
    )
    try:
        await ours.take(TENANT, generation, [PassageId(1)])
        ours.abandon()
        with pytest.raises(ClaimLostError):
            ours.check([(TENANT, generation, PassageId(1))])
        await taken_over(theirs, generation, PassageId(1))
    finally:
        await ours.close()
        await theirs.close()


async def test_a_request_that_is_cancelled_while_it_claims_leaves_no_claim_behind(
    claims: Counted, generation: GenerationId, owner: asyncpg.Connection
) -> None:
    gatherer = ClaimedPassageEmbedder(Embedding(), claims)
    for _ in range(20):
        task = asyncio.create_task(gatherer.embed(TENANT, generation, [(PassageId(1), "text")]))
        await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await gatherer.drain()
    assert await owner.fetchval("select count(*) from embedding_claims") == 0


async def test_a_frozen_process_sends_only_what_was_in_flight_and_the_others_embed_the_rest_once(
    database: Database, generation: GenerationId, owner: asyncpg.Connection
) -> None:
    """Two processes with the same passages; the first stands still with one request under way, and
    wakes up when the other is done.
    """
    await owner.execute(
        "insert into tenants (tenant_id) values ($1) on conflict do nothing", TENANT
    )
    texts = [f"text number {n}" for n in range(40)]
    await owner.execute(
        "insert into passages (tenant_id, hash, content, length, tsv) select $1, "
        "sha256(c::bytea), c, length(c), ''::tsvector from unnest($2::text[]) c",
        TENANT,
        texts,
    )
    passages = [
        (PassageId(row[0]), row[1])
        for row in await owner.fetch("select passage_id, content from passages order by 1")
    ]
    wakes, begun = asyncio.Event(), asyncio.Event()

    async def stand_still(given: Sequence[str], request: int) -> None:
        if request:
            return
        begun.set()
        await wakes.wait()
        raise OutageError("embedder", "the connection was cut meanwhile")

    first, second = (
        FakeEmbedder(8, limits=EmbedLimits(max_texts=10, concurrency=1)),
        FakeEmbedder(8),
    )
    first.script = stand_still
    store, ours, theirs = (
        PgVectorStore(database),
        EmbeddingClaims(database, lease_s=_LEASE_S),
        EmbeddingClaims(database, lease_s=_LEASE_S),
    )
    try:
        async with (
            open_passage_embedder(store, EmbeddingService(first), ours) as frozen_one,
            open_passage_embedder(store, EmbeddingService(second), theirs) as other,
            asyncio.timeout(60),
        ):
            late = asyncio.create_task(frozen_one.embed(TENANT, generation, passages))
            await begun.wait()
            frozen(ours)
            assert await other.embed(TENANT, generation, passages) == []
            assert sorted(second.texts) == sorted(texts)
            wakes.set()
            await asyncio.gather(late, return_exceptions=True)
            assert await frozen_one.embed(TENANT, generation, passages) == []
        assert [len(given) for given in first.sent if given != ["livedex"]] == [10], (
            "nothing but what was in flight"
        )
    finally:
        await ours.close()
        await theirs.close()
    assert claim_lease.LEASE_S <= 20  # of the 30 s that others may wait
