"""Claims on passages that are embedded, by what two processes would do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import asyncpg
import pytest

from consumers.embed import ClaimingGatherer
from pipeline.errors import RejectedError
from pipeline.model import GenerationId, PassageId, TenantId
from pipeline.store.claims import Claims, open_claims
from pipeline.store.database import Database
from pipeline.store.pgvector import PgVectorStore

TENANT = TenantId("t")


class Counted(Claims):
    """Claims, counting how often some are let go of."""

    releases = 0

    async def release(self, tenant_id: TenantId, generation_id: GenerationId, passages: Collection[PassageId]) -> None:
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
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Sequence[tuple[PassageId, str]]
    ) -> list[RejectedError]:
        self.asked += [passage for passage, _ in passages]
        self.ends.append(asyncio.Event())
        if self.at_once:
            asyncio.get_running_loop().call_later(0.05, self.ends[-1].set)
        await self.ends[-1].wait()
        return []


@pytest.fixture
async def generation(database: Database) -> GenerationId:
    return await PgVectorStore(database).ensure_schema("test", 8)


@pytest.fixture
async def claims(database: Database, owner_url: str) -> AsyncIterator[Counted]:
    found = Counted(database, owner_url)
    yield found
    await found.close()


async def test_passages_of_many_documents_are_let_go_of_together(
    claims: Counted, generation: GenerationId, owner: asyncpg.Connection
) -> None:
    inner = Embedding()
    gatherer = ClaimingGatherer(inner, claims)
    await asyncio.gather(*(gatherer.embed(TENANT, generation, [(PassageId(n), "text")]) for n in range(1, 31)))
    assert sorted(inner.asked) == list(range(1, 31))
    async with asyncio.timeout(30):
        while await owner.fetchval("select count(*) from embedding_claims"):
            await asyncio.sleep(0.01)  # nobody waits for a claim to be let go of
    assert claims.releases < 10


async def test_a_passage_that_another_holds_stays_with_it(
    claims: Counted, generation: GenerationId, database: Database, owner_url: str
) -> None:
    async with open_claims(database, owner_url) as others:
        assert (await others.take(TENANT, generation, [PassageId(1)])).ours == {1}
        assert (await claims.take(TENANT, generation, [PassageId(1), PassageId(2)])).ours == {2}
        await claims.release(TENANT, generation, [PassageId(1), PassageId(2)])
        assert (await claims.take(TENANT, generation, [PassageId(1)])).ours == frozenset()
        await others.release(TENANT, generation, [PassageId(1)])
        assert (await claims.take(TENANT, generation, [PassageId(1)])).ours == {1}


async def test_a_passage_that_is_asked_for_again_stays_claimed_while_it_is_embedded(
    claims: Counted, generation: GenerationId, database: Database, owner_url: str
) -> None:
    inner = Embedding(at_once=False)
    gatherer = ClaimingGatherer(inner, claims)
    async with open_claims(database, owner_url) as others, asyncio.timeout(30):

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
        while not claims.releases:  # nobody waits for a claim to be let go of
            await asyncio.sleep(0.001)
        assert (await others.take(TENANT, generation, [PassageId(1)])).ours == frozenset()
        inner.ends[1].set()
        await second
        while (await others.take(TENANT, generation, [PassageId(1)])).ours != {1}:
            await asyncio.sleep(0.01)
