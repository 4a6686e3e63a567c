"""What is told of a component's health is written down, also when the database was away at the time."""

from __future__ import annotations

import asyncio

import asyncpg

from pipeline.cli.wiring import health_teller
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
