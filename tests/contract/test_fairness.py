"""Who waits for whom on a real broker: tenants take turns, and a document that cannot be processed
holds up itself alone.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from livedex.pipeline.errors import RetryableError
from livedex.pipeline.events.event import Changed, Event, change_event
from livedex.pipeline.flow import stage
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.pipelines.stage_runner import StartStage, stage_on_kafka, stage_on_postgres

WORKERS = stage("chunk").workers
MANY = 30 * WORKERS


@pytest.fixture(params=["postgres", "kafka"])
def running(request: pytest.FixtureRequest, owner_url: str, database: Database) -> StartStage:
    if request.param == "postgres":
        return stage_on_postgres(owner_url, database)
    return stage_on_kafka(request.getfixturevalue("kafka"), database)


def deletes(tenant_id: str, names: list[str]) -> list[Event[Changed]]:
    return [
        change_event(Changed(tenant_id=tenant_id, document_id=name, version=1, deleted=True))
        for name in names
    ]


async def test_one_document_of_a_tenant_does_not_wait_for_hundreds_of_another(
    running: StartStage,
) -> None:
    ended: list[str] = []

    async def run(event: Event[Any]) -> Finished:
        await asyncio.sleep(0.02)
        ended.append(event.tenant_id)
        return Finished()

    async with running(run) as bench:
        await bench.broker.publish(deletes("large", [f"d{n}" for n in range(MANY)]))
        while not ended:
            await asyncio.sleep(0.005)
        before = len(ended)
        await bench.broker.publish(deletes("small", ["d"]))
        await bench.wait_drained()
    assert len(ended) == MANY + 1
    assert ended.index("small") - before < 10 * WORKERS, "it waited for what was there before it"


async def test_of_one_document_one_version_is_worked_on_at_a_time_and_its_backlog_holds_up_nobody(
    running: StartStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.stages.outcome.FIRST_RETRY_DELAY_S", 1.0)
    ended, at_once, most, gate = list[str](), 0, 0, asyncio.Event()

    async def run(event: Event[Any]) -> Finished:
        nonlocal at_once, most
        if event.document_id != "slow":
            ended.append(event.document_id)
            return Finished()
        at_once += 1
        most = max(most, at_once)
        try:
            await asyncio.sleep(0.02)
            if not gate.is_set():
                raise RetryableError("its server is away")
        finally:
            at_once -= 1
        return Finished()

    async with running(run) as bench:
        versions = [
            change_event(Changed(tenant_id="t", document_id="slow", version=n, deleted=True))
            for n in range(1, 4 * WORKERS)
        ]
        await bench.broker.publish(versions)
        await bench.broker.publish(deletes("t", [f"d{n}" for n in range(50)]))
        async with asyncio.timeout(30):
            while len(ended) < 50:
                await asyncio.sleep(0.02)
        assert await bench.left() >= 1, "the others overtook it"
        assert await bench.letters.all() == []
        gate.set()
        await bench.wait_drained()
    assert most == 1
