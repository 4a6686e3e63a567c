"""Tenant isolation: by the statements, and by the database alone without them."""

from __future__ import annotations

from collections import Counter

import asyncpg
import pytest

from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import all_statements, sql
from tests.support.models.tenant_installation import tenant_probes
from tests.support.models.tenant_isolation import probe_tenants
from tests.support.postgres.predicate_removal import (
    strip_tenant_predicates,
    without_tenant_predicates,
)

OPERATIONS = 600


async def test_no_tenant_gets_anything_of_another(database: Database, owner_url: str) -> None:
    async with tenant_probes(database, owner_url, 4, seed=1) as all_of_them:
        assert await probe_tenants(all_of_them, OPERATIONS) == []
        done = sum((prier.asked for prier in all_of_them), Counter())
        assert min(done.values()) > 5 and len(done) == 9
        assert all(prier.documents for prier in all_of_them)


async def test_nor_when_no_statement_says_anything_of_the_tenant(
    database: Database, owner_url: str
) -> None:
    with without_tenant_predicates() as changed:
        assert len(changed) > 60
        assert "tenant_id = $" not in sql("read_document")
        async with tenant_probes(database, owner_url, 4, seed=2) as all_of_them:
            assert await probe_tenants(all_of_them, OPERATIONS) == []
            assert all(prier.documents for prier in all_of_them)
    assert "tenant_id = $" in sql("read_document")


async def test_that_they_are_apart_is_the_work_of_the_policies_then(
    database: Database, owner: asyncpg.Connection, owner_url: str
) -> None:
    tables = [
        row[0]
        for row in await owner.fetch(
            "select relname from pg_class where relrowsecurity and relnamespace = "
            "'public'::regnamespace"
        )
    ]
    for table in tables:
        await owner.execute(
            f'alter table "{table}" no force row level security, disable row level security'
        )
    with without_tenant_predicates():
        async with tenant_probes(database, owner_url, 4, seed=3) as all_of_them:
            assert await probe_tenants(all_of_them, OPERATIONS) != []


async def test_nor_does_anybody_read_what_is_for_others_without_the_policy_on_rights(
    database: Database, owner: asyncpg.Connection, owner_url: str
) -> None:
    await owner.execute("drop policy rights on documents")
    async with tenant_probes(database, owner_url, 2, seed=4) as all_of_them:
        assert await probe_tenants(all_of_them, OPERATIONS) == []


async def test_without_either_it_would_be_noticed(
    database: Database, owner: asyncpg.Connection, owner_url: str
) -> None:
    await owner.execute("drop policy rights on documents")
    with without_tenant_predicates():
        async with tenant_probes(database, owner_url, 2, seed=5) as all_of_them:
            leaks = await probe_tenants(all_of_them, OPERATIONS)
            assert any("for ActingReader(" in leak for leak in leaks), leaks


@pytest.mark.parametrize("name", sorted(all_statements()))
def test_no_condition_on_the_tenant_is_left_in_a_statement(name: str) -> None:
    text = strip_tenant_predicates(all_statements()[name])
    lines = [line.partition("--")[0] for line in text.splitlines()]
    assert not any(
        f"tenant_id {sign} " in line for line in lines for sign in ("=", "<>", "in", "is")
    )
