"""Random reads and writes of tenants with the same ids and the same texts, over the API: nothing of
another tenant in any answer.

Once as the program runs, and once without anything in its statements that says whose rows are
meant, so that the database alone keeps them apart.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import asyncpg

from bench.table import print_table
from livedex.pipeline.store.database import open_database
from livedex.pipeline.store.embedded.server import embedded_postgres, url_for_role
from livedex.pipeline.store.schema.migrator import APPLICATION_ROLE, migrate
from tests.support.models.tenant_installation import tenant_probes
from tests.support.models.tenant_isolation import probe_tenants
from tests.support.postgres.predicate_removal import without_tenant_predicates

TENANTS = 20
_SHOWN = 10


async def run(operations: int = 10_000) -> None:
    """Print what was asked and what was wrong."""
    rows, wrong = [], []
    for name, removed in (
        ("with the tenant in every statement", False),
        ("without it, by the database alone", True),
    ):
        begin = time.monotonic()
        asked, leaks = await _pry(operations, removed)
        rows.append(
            [
                name,
                sum(asked.values()),
                asked["put"] + asked["delete"],
                asked["search"],
                len(leaks),
                time.monotonic() - begin,
            ]
        )
        wrong += leaks
    print_table(
        f"{TENANTS} tenants, the same ids and texts",
        ["", "operations", "writes", "searches", "answers that were wrong", "s"],
        rows,
    )
    for leak in wrong[:_SHOWN]:
        print(f"  {leak[:1000]}")


async def _pry(operations: int, removed: bool) -> tuple[Counter[str], list[str]]:
    with (
        await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="livedex-bench-") as folder,
        ExitStack() as stack,
    ):
        async with embedded_postgres(Path(folder)) as url:
            owner = await asyncpg.connect(url)
            await migrate(owner)
            await owner.close()
            if removed:
                stack.enter_context(without_tenant_predicates())
            async with (
                open_database(url_for_role(url, APPLICATION_ROLE)) as database,
                tenant_probes(database, url, TENANTS, seed=1) as tenants,
            ):
                leaks = await probe_tenants(tenants, operations)
                return sum((tenant.asked for tenant in tenants), Counter()), leaks
