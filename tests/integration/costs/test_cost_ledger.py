"""The ledger of embedding costs: it equals what the provider counted, on each broker and in the
library, and tenants see their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from livedex import Livedex
from livedex.app.wiring import AppContext
from livedex.pipeline.costs.bill import ModelPrice
from livedex.pipeline.costs.charges import Charge, EmbeddingCharges
from livedex.pipeline.errors import TenantDeletedError
from livedex.pipeline.model import DEFAULT_TENANT, TenantId
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.blobs.postgres_blob_store import PostgresBlobStore
from livedex.pipeline.store.cost_ledger import CostEntry, CostLedger
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.tenant_store import TenantStore
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import (
    InProcessInstallation,
    open_installation,
    settings_for,
)
from tests.support.pipelines.stage_runner import kafka_settings

USD = Decimal("0.5")  # a million tokens
TOKEN = USD / 1_000_000


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(params=["postgres", "kafka"])
def settings(
    request: pytest.FixtureRequest, owner_url: str, embedder: EmbeddingServer, tmp_path: Path
) -> Settings:
    """Of an installation whose model has a price."""
    servers = request.getfixturevalue("kafka") if request.param == "kafka" else None
    prices = tmp_path / "prices.toml"
    prices.write_text(f'[[price]]\nmodel = "openai:counting"\nusd_per_million_tokens = "{USD}"\n')
    embedder.tokens_of = words
    return settings_for(owner_url, servers, embedder, kafka_settings(), prices=prices)


@pytest.fixture
async def site(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> AsyncIterator[InProcessInstallation]:
    async with open_installation(settings, tmp_path, embedder) as opened:
        yield opened


async def ledger(s: AppContext, tenant: TenantId = DEFAULT_TENANT) -> list[CostEntry]:
    return [
        entry for entry in await s.costs.read(tenant, days=1) if entry.texts or entry.reused_texts
    ]


def text(*numbers: int) -> str:
    return "".join(f"# {n}\n\n{paragraph(n)}\n\n" for n in numbers)


async def report(site: InProcessInstallation, token: str) -> dict[str, Any]:
    return dict((await site.http.get(f"/v1/sync/{token}", params={"wait_s": 30})).json())


async def test_ledger_bills_and_provider_agree(
    site: InProcessInstallation, embedder: EmbeddingServer
) -> None:
    bills = [
        await report(site, (await site.put(name, body, **more))["token"])
        for name, body, more in [
            ("a", text(1, 2, 3), {}),
            ("a", text(1, 4, 3), {}),
            ("copy", text(1, 4, 3), {}),
        ]
    ]
    counted = sum(words(each) for each in embedder.embedded_documents)
    assert [bill["embedded"] for bill in bills] == [3, 1, 0]
    assert sum(bill["tokens"] for bill in bills) == counted
    assert Decimal(bills[0]["cost"]["amount"]) == bills[0]["tokens"] * TOKEN
    assert bills[2]["cost"] == {"amount": "0", "currency": "USD"}
    (entry,) = await ledger(site.s)
    assert (entry.texts, entry.tokens, entry.cost) == (4, counted, counted * TOKEN)
    assert (entry.reused_texts, entry.unpriced_tokens) == (2 + 3, 0)
    assert entry.saved_tokens > 0 and entry.saved_cost == entry.saved_tokens * TOKEN
    assert entry.model_id == "openai:counting"


async def test_searches_are_counted_apart(site: InProcessInstallation) -> None:
    await site.put("a", text(1))
    await site.ended()
    before = await ledger(site.s)
    for query in ("how many refunds are there", "how many refunds are there", "another"):
        assert (await site.http.post("/v1/search", json={"query": query})).status_code == 200
    for _ in range(100):
        found = [
            entry for entry in await site.s.costs.read(DEFAULT_TENANT, days=1) if entry.queries
        ]
        if found:
            break
        await asyncio.sleep(0.1)
    assert [(each.queries, each.query_tokens, each.query_cost) for each in found] == [
        (2, 6, 6 * TOKEN)  # the second came from the cache
    ]
    assert [(each.texts, each.cost) for each in await ledger(site.s)] == [
        (each.texts, each.cost) for each in before
    ]


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_the_library_charges_its_sources_and_tenants(
    settings: Settings, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    async with Livedex.open(settings, tmp_path) as livedex:
        for tenant, numbers in (("acme", (1, 2)), ("globex", (1,))):
            done = await livedex.ingest("a.md", text(*numbers), tenant_id=tenant)
            assert done.cost == done.tokens * TOKEN > 0
        for tenant, texts in (("acme", 2), ("globex", 1)):
            (entry,) = await ledger(livedex.surroundings, TenantId(tenant))
            assert (entry.texts, entry.source) == (texts, "")
        tokens = [
            (await ledger(livedex.surroundings, TenantId(tenant)))[0].tokens
            for tenant in ("acme", "globex")
        ]
    assert sum(tokens) == sum(words(each) for each in embedder.embedded_documents)


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_model_in_the_process_is_counted_and_free(
    settings: Settings, tmp_path: Path
) -> None:
    local = settings.model_copy(
        update={"embedder": "local", "embedder_url": None, "dimensions": None}
    )
    async with Livedex.open(local, tmp_path) as livedex:
        done = await livedex.ingest("a.md", text(1, 2), tenant_id="acme")
        assert (done.embedded, done.cost) == (2, 0)
        (entry,) = await ledger(livedex.surroundings, TenantId("acme"))
        assert (entry.texts, entry.cost, entry.unpriced_tokens) == (2, 0, 0)
        assert entry.tokens == done.tokens > 0


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_vectors_that_a_lost_answer_had_stored_are_charged_once(
    settings: Settings, tmp_path: Path
) -> None:
    async with Livedex.open(settings, tmp_path) as livedex:
        s, acme = livedex.surroundings, TenantId("acme")
        await livedex.ingest("a.md", text(1, 2), tenant_id="acme")
        async with s.database.tenant(acme) as connection:
            passages = [row[0] for row in await connection.fetch("select passage_id from passages")]
        generation = await s.generations.active()
        vectors = {passage: [1.0] * 32 for passage in passages}
        for is_retry, texts in ((True, 2), (False, 4)):
            charges = EmbeddingCharges(
                {passage: Charge(3, 3) for passage in passages}, is_retry=is_retry
            )
            await s.store.upsert_vectors(acme, generation, vectors, charges=charges)  # type: ignore[arg-type]
            assert sum(entry.texts for entry in await ledger(s, acme)) == texts


async def test_a_price_that_is_not_known_is_said(database: Database) -> None:
    costs, model = CostLedger(database), ModelPrice("openai:unheard-of")
    await costs.count_queries(TenantId("acme"), model, 1, 9)
    (entry,) = await costs.read(TenantId("acme"), days=1)
    assert (entry.query_tokens, entry.query_cost) == (9, 0)


async def test_past_days_are_merged_without_a_change_of_the_sums(
    database: Database, owner_url: str
) -> None:
    costs, acme = CostLedger(database), TenantId("acme")
    owner = await asyncpg.connect(owner_url)
    try:
        await owner.execute(
            "insert into embedding_costs"
            " (tenant_id, day, source, model_id, slot, texts, tokens, cost)"
            " select 'acme', current_date - d, s, 'm', slot, 1, slot, 0.1"
            " from generate_series(0, 4) d, generate_series(0, 16) slot, unnest(array['x', 'y']) s"
        )
        before = await costs.read(acme, days=10)
        assert [sum(entry.texts for entry in before), len(before)] == [170, 10]
        for _ in range(2):
            await costs.merge_past_days(acme)
            assert await costs.read(acme, days=10) == before
        rows = await owner.fetchval("select count(*) from embedding_costs")
        assert rows <= 2 * (2 * 17 + 3)
    finally:
        await owner.close()


async def test_nothing_is_counted_for_a_deleted_tenant(database: Database) -> None:
    costs, gone = CostLedger(database), TenantId("gone")
    tenants = TenantStore(database, PostgresBlobStore(database))
    await tenants.create(gone)
    await costs.count_queries(gone, ModelPrice("m"), 1, 1)
    await tenants.delete(gone)
    assert await costs.read(gone, days=1) == []
    with pytest.raises(TenantDeletedError):
        await costs.count_queries(gone, ModelPrice("m"), 1, 1)


@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_the_api_reports_pages_of_one_tenant(site: InProcessInstallation) -> None:
    async with site.s.database.tenant(DEFAULT_TENANT) as connection:
        await connection.execute(
            "insert into embedding_costs"
            " (tenant_id, day, source, model_id, slot, texts, tokens, cost)"
            " select 'default', (now() at time zone 'utc')::date - d, s, 'm', 1, 1, 10, 0.25"
            " from generate_series(0, 9) d, unnest(array['', 'x']) s"
        )
    await CostLedger(site.s.database).count_queries(TenantId("globex"), ModelPrice("secret"), 1, 9)

    async def read(**parameters: Any) -> dict[str, Any]:
        answer = await site.http.get("/v1/cost", params=parameters)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    whole = await read()
    assert whole["total"]["texts"] == 20 and len(whole["costs"]) == 10
    assert whole["total"]["cost"] == {"amount": "5", "currency": "USD"}
    assert "secret" not in str(whole)
    assert whole["usd_per_million_tokens"] == str(USD) and whole["price_as_of"] is None
    assert (await read(days=1))["total"]["texts"] == 2
    assert (await read(source="x"))["total"]["texts"] == 10
    assert (await read(source="\x00"))["costs"] == []
    assert [row["source"] for row in (await read(by="source"))["costs"]] == ["", "x"]
    pages, cursor = list[dict[str, Any]](), None
    while True:
        more = {} if cursor is None else {"cursor": cursor}
        page = await read(by=["day", "source"], limit=7, **more)
        pages += page["costs"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert [(row["day"], row["source"]) for row in pages] == sorted(
        {(row["day"], row["source"]) for row in pages}
    )
    assert len(pages) == 20
    for parameters in ({"days": 0}, {"by": "tenant"}, {"cursor": "x"}, {"dayz": 1}):
        answer = await site.http.get("/v1/cost", params=parameters)
        assert answer.status_code == 422, parameters
        assert answer.headers["content-type"] == "application/problem+json"
