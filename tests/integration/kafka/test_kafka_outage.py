"""Kafka goes and comes back, or a consumer stops getting on: everything goes on by itself, and the
health says what is the matter.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import CHANGED, SYNCED, Event
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.external_client import ExternalKafkaClient, wait_until
from tests.support.kafka.installation import InstallationProcess, KafkaInstallation, change, text
from tests.support.kafka.server import KafkaServer
from tests.support.pipelines.stage_runner import kafka_settings, stage_on_kafka


@pytest.fixture
def mortal(
    kafka_server: KafkaServer,
    owner_url: str,
    tmp_path: Path,
    embedder: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
) -> KafkaInstallation:
    """An installation on a Kafka that may be killed; its processes look more often than they need
    to.
    """
    monkeypatch.setattr("livedex.consumers.kafka.cluster_monitor.CHECK_EVERY_S", 0.2)
    monkeypatch.setattr("livedex.consumers.kafka.cluster_monitor.PING_TIMEOUT_S", 1.0)
    monkeypatch.setattr("livedex.consumers.kafka.broker.ACCEPT_S", 2.0)
    monkeypatch.setattr("livedex.consumers.kafka.broker.REPORT_AFTER_S", 0.5)
    return KafkaInstallation(
        owner_url,
        kafka_server.bootstrap,
        kafka_settings(partitions=2, session_timeout_s=6),
        tmp_path,
        embedder,
    )


async def told(process: InstallationProcess, state: str) -> str | None:
    """Wait until the broker is said to be so; the reason."""

    async def so() -> bool:
        found = await process.health("broker")
        return found is not None and found[0] == state

    await wait_until(so)
    found = await process.health("broker")
    return None if found is None else found[1]


async def test_what_is_published_before_and_after_a_broker_was_killed_is_handled_without_a_restart(
    mortal: KafkaInstallation, kafka_server: KafkaServer, embedder: EmbeddingServer
) -> None:
    async with mortal.process() as process:
        await process.accept(change("before.md", 1, text(1)))
        await process.ended()
        await asyncio.to_thread(kafka_server.kill)
        with pytest.raises(OutageError):
            await process.accept(change("refused.md", 1, text(2)))
        assert kafka_server.bootstrap in (await told(process, "down") or "")
        since = await process.since("broker")
        await asyncio.sleep(1)
        assert await process.since("broker") == since, "it is down since the moment it went"
        await asyncio.to_thread(kafka_server.restart)
        await told(process, "ok")
        await process.accept(change("after.md", 1, text(3)), change("refused.md", 1, text(2)))
        await process.ended()
        assert [await process.state(name) for name in ("before.md", "after.md", "refused.md")] == [
            ("synced", 1)
        ] * 3
        assert await process.s.letters.all() == []
    assert Counter(embedder.embedded_documents) == Counter([text(1), text(2), text(3)])


async def test_a_stage_that_cannot_publish_waits_for_kafka_and_publishes_once(
    mortal: KafkaInstallation, kafka_server: KafkaServer, embedder: EmbeddingServer
) -> None:
    def kill(texts: list[str], _: int) -> None:
        if any("Marker1 " in given for given in texts) and not killed:
            killed.append(True)
            kafka_server.kill()

    killed: list[bool] = []
    embedder.answer = kill  # type: ignore[assignment]
    async with mortal.process() as process:
        await process.accept(change("a.md", 1, text(1)))
        await told(process, "down")
        await asyncio.to_thread(kafka_server.restart)
        await told(process, "ok")
        await process.ended()
        assert await process.state("a.md") == ("synced", 1)
        assert await process.s.letters.all() == []
    assert embedder.embedded_documents == [text(1)]
    assert len(await mortal.external_client.records(SYNCED)) == 1


async def test_a_process_ends_while_kafka_is_away_and_the_next_one_does_the_rest(
    mortal: KafkaInstallation,
    kafka_server: KafkaServer,
    embedder: EmbeddingServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # nobody waits for a publishing that nobody takes
    monkeypatch.setattr("livedex.consumers.kafka.broker.DRAIN_S", 3600.0)
    embedder.answer = lambda texts, _: (
        kafka_server.kill() if any("Marker1 " in given for given in texts) else None
    )  # type: ignore[func-returns-value]
    async with asyncio.timeout(60), mortal.process() as process:
        await process.accept(change("a.md", 1, text(1)))
        await told(process, "down")
    embedder.answer = lambda texts, _: None
    await asyncio.to_thread(kafka_server.restart)
    async with mortal.process() as process:
        await process.ended()
        assert await process.state("a.md") == ("synced", 1)
        assert await process.s.letters.all() == []
    assert embedder.embedded_documents == [text(1)], "the vector of the first process is there"


class Steps:
    """A stage that counts."""

    def __init__(self) -> None:
        self.done = Counter[str]()

    async def run(self, event: Event[Any]) -> Finished:
        """The stage."""
        self.done[event.document_id] += 1
        return Finished()


async def test_a_consume_task_that_raises_goes_on(kafka: str, database: Database) -> None:
    steps, raised = Steps(), list[bool]()
    async with stage_on_kafka(kafka, database)(steps.run) as bench:
        consumer = bench.broker.stages[0]._subscriber.consumer  # type: ignore[attr-defined]
        poll = consumer.getmany

        async def broken(*partitions: Any, **options: Any) -> Any:
            if len(raised) < 3:
                raised.append(True)
                raise RuntimeError("nobody foresaw this")
            return await poll(*partitions, **options)

        consumer.getmany = broken
        await bench.publish("a", "b", "c")
        await bench.wait_drained()
    assert steps.done == {"a": 1, "b": 1, "c": 1} and len(raised) == 3


async def test_a_consumer_that_has_stopped_to_poll_joins_its_group_anew(
    kafka: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("livedex.consumers.kafka.cluster_monitor.CHECK_EVERY_S", 0.1)
    monkeypatch.setattr("livedex.consumers.kafka.cluster_monitor.REJOIN_AFTER_S", 3.0)
    settings, steps = kafka_settings(), Steps()
    async with stage_on_kafka(kafka, database, settings)(steps.run) as bench:
        await bench.publish("a")
        await bench.wait_drained()
        stage = bench.broker.stages[0]  # type: ignore[attr-defined]
        stalled = stage._subscriber.consumer

        async def silent(*_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

        stalled.getmany = silent
        await wait_until(lambda: stage._subscriber.consumer not in (None, stalled))
        await bench.publish("b", "c")
        await bench.wait_drained()
    assert steps.done == {"a": 1, "b": 1, "c": 1}
    assert "rejoins its group" in caplog.text
    assert await ExternalKafkaClient(kafka, settings.prefix).ended(CHANGED, "chunk")
