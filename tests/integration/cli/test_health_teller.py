"""What is told of a component's health is written down, also when the database was away at the time."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from pipeline.cli.health_telling import health_teller
from pipeline.errors import OutageError
from pipeline.store.database import Database
from pipeline.store.operations import Operations


class Away(Operations):
    """Operations on a database that can be away."""

    away = True
    refused = 0

    async def set_health(self, component: str, *, ok: bool, detail: str | None = None) -> None:
        if self.away:
            self.refused += 1
            raise OutageError("database", "set health")
        await super().set_health(component, ok=ok, detail=detail)


async def states(owner: asyncpg.Connection) -> dict[str, str]:
    return {row["component"]: row["state"] for row in await owner.fetch("select component, state from health")}


async def becomes(owner: asyncpg.Connection, expected: dict[str, str]) -> None:
    async with asyncio.timeout(20):
        while await states(owner) != expected:
            await asyncio.sleep(0.02)


async def test_that_a_component_is_back_is_written_down_once_the_database_is_back(database: Database, owner: asyncpg.Connection) -> None:
    operations = Away(database)
    operations.away = False
    async with health_teller(operations) as tell:
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


async def test_a_newer_word_wins_over_one_that_could_not_be_written(database: Database, owner: asyncpg.Connection) -> None:
    operations = Away(database)
    async with health_teller(operations) as tell:
        tell("broker", None)
        async with asyncio.timeout(20):
            while not operations.refused:
                await asyncio.sleep(0.02)
        tell("broker", "does not answer")
        operations.away = False
        await becomes(owner, {"broker": "down"})


async def test_who_ends_takes_back_what_it_said_against_others_and_nothing_else(database: Database, owner: asyncpg.Connection) -> None:
    operations = Operations(database)
    await operations.set_health("source:docs", ok=False, detail="the folder is away")
    async with health_teller(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down", "source:docs": "down"})
    assert await states(owner) == {"broker": "ok", "source:docs": "down"}


async def test_the_word_of_one_that_was_killed_lapses_and_of_one_that_runs_it_is_said_again(
    database: Database, owner: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.cli.health_telling.SAID_AGAIN_S", 0.05)
    operations = Operations(database)
    await operations.set_health("embedder", ok=False, detail="of a process that is gone")
    await operations.set_health("source:docs", ok=False, detail="the folder is away")
    async with health_teller(operations) as tell:
        tell("broker", "does not answer")
        await becomes(owner, {"broker": "down", "embedder": "down", "source:docs": "down"})
        began = (await operations.health())["broker"].since
        await owner.execute("update health set updated_at = now() - interval '2 minutes'")
        async with asyncio.timeout(20):
            while (await operations.health())["broker"].state != "down":
                await asyncio.sleep(0.02)
        found = await operations.health()
        assert {name: told.state for name, told in found.items()} == {"broker": "down", "embedder": "ok", "source:docs": "down"}
        assert found["broker"].since >= began
