"""What is told of a component's health is written down, also when the database was away at the
time.
"""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from livedex.app.health_reporter import open_health_reporter
from livedex.pipeline.errors import OutageError
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.installation_status import InstallationStatus


class Away(InstallationStatus):
    """Operations on a database that can be away."""

    away = True
    refused = 0

    async def set_health(self, component: str, *, ok: bool, detail: str | None = None) -> None:
        if self.away:
            self.refused += 1
            raise OutageError("database", "set health")
        await super().set_health(component, ok=ok, detail=detail)


async def states(owner: asyncpg.Connection) -> dict[str, str]:
    return {
        row["component"]: row["state"]
        for row in await owner.fetch("select component, state from health")
    }


async def becomes(owner: asyncpg.Connection, expected: dict[str, str]) -> None:
    async with asyncio.timeout(20):
        while await states(owner) != expected:
            await asyncio.sleep(0.02)


async def test_that_a_component_is_back_is_written_down_once_the_database_is_back(
    database: Database, owner: asyncpg.Connection
) -> None:
    operations = Away(database)
    operations.away = False
    async with open_health_reporter(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down"})
        operations.away = True
        tell("broker", None)
        tell("database", "does not answer")
        tell("database", None)
        async with asyncio.timeout(20):
            while not operations.refused:
                await asyncio.sleep(0.02)
        operations.away = False
        await becomes(owner, {"broker": "ok", "database": "ok"})


async def test_a_newer_word_wins_over_one_that_could_not_be_written(
    database: Database, owner: asyncpg.Connection
) -> None:
    operations = Away(database)
    async with open_health_reporter(operations) as tell:
        tell("broker", None)
        async with asyncio.timeout(20):
            while not operations.refused:
                await asyncio.sleep(0.02)
        tell("broker", "does not answer")
        assert tell.down == {"broker": "does not answer", "database": "set health"}, (
            "this process knows at once"
        )
        operations.away = False
        await becomes(owner, {"broker": "down", "database": "ok"})
        assert tell.down == {"broker": "does not answer"}


async def test_a_database_that_takes_no_changes_is_found_out_and_told_until_it_does(
    database: Database, owner: asyncpg.Connection, owner_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.app.health_reporter.REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr("livedex.app.health_reporter._RETRY_INTERVAL_S", 0.05)
    name = await owner.fetchval("select current_database()")
    async with open_health_reporter(InstallationStatus(database)) as tell:
        await owner.execute(f'alter database "{name}" set default_transaction_read_only = on')
        await owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
            "current_database() and pid <> pg_backend_pid()"
        )
        async with asyncio.timeout(20):
            while "database" not in tell.down:
                await asyncio.sleep(0.02)
        assert "read-only" in tell.down["database"]
        await owner.execute(f'alter database "{name}" reset default_transaction_read_only')
        await owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = "
            "current_database() and pid <> pg_backend_pid()"
        )
        async with asyncio.timeout(20):
            while tell.down:
                await asyncio.sleep(0.02)
        await becomes(owner, {"database": "ok"})


async def test_nothing_that_fails_ends_the_copying(
    database: Database, owner: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.app.health_reporter._RETRY_INTERVAL_S", 0.02)
    failures: list[Exception] = [
        ZeroDivisionError(),
        asyncpg.InternalClientError("state 15"),
        asyncpg.UndefinedTableError("health"),
        OutageError("database", "x"),
    ]
    operations, write = InstallationStatus(database), InstallationStatus(database).set_health

    async def failing(component: str, *, ok: bool, detail: str | None = None) -> None:
        if failures:
            raise failures.pop()
        await write(component, ok=ok, detail=detail)

    monkeypatch.setattr(operations, "set_health", failing)
    async with open_health_reporter(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down", "database": "ok"})


async def test_who_ends_takes_back_what_it_said_against_others_and_nothing_else(
    database: Database, owner: asyncpg.Connection
) -> None:
    operations = InstallationStatus(database)
    await operations.set_health("source:docs", ok=False, detail="the folder is away")
    async with open_health_reporter(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down", "source:docs": "down"})
    assert await states(owner) == {"broker": "ok", "source:docs": "down"}


async def test_the_word_of_one_that_was_killed_lapses_and_of_one_that_runs_it_is_said_again(
    database: Database, owner: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.app.health_reporter.REPORT_INTERVAL_S", 0.05)
    operations = InstallationStatus(database)
    await operations.set_health("embedder", ok=False, detail="of a process that is gone")
    await operations.set_health("source:docs", ok=False, detail="the folder is away")
    async with open_health_reporter(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down", "embedder": "down", "source:docs": "down"})
        began = (await operations.health())["broker"].since
        await owner.execute("update health set updated_at = now() - interval '2 minutes'")
        async with asyncio.timeout(20):
            while (await operations.health())["broker"].state != "down":
                await asyncio.sleep(0.02)
        found = await operations.health()
        assert {name: told.state for name, told in found.items()} == {
            "broker": "down",
            "embedder": "ok",
            "source:docs": "down",
        }
        assert found["broker"].since >= began
