"""What administrators and time do to a cluster under Livedex: other addresses, more partitions,
topics made again, missing or emptied.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.structs import BrokerMetadata

from livedex.consumers.kafka.broker import KafkaBroker
from livedex.consumers.kafka.topics import ensure_topics
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.events.event import CHANGED, DEAD, SYNCED, Event
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.kafka.external_client import ExternalKafkaClient, wait_until
from tests.support.kafka.installation import KafkaInstallation, change, text
from tests.support.kafka.nodes import ReservedPort
from tests.support.pipelines.stage_runner import StageHarness, kafka_settings, stage_on_kafka


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("livedex.consumers.kafka.cluster_monitor.CHECK_EVERY_S", 0.2)
    monkeypatch.setattr("livedex.consumers.kafka.partition_monitor.CHECK_EVERY_S", 0.2)
    monkeypatch.setattr("livedex.consumers.kafka.client_rebootstrap.LOST_AFTER_S", 0.5)
    monkeypatch.setattr("livedex.consumers.kafka.client_rebootstrap._AGAIN_AFTER_S", 0.2)
    monkeypatch.setattr("livedex.consumers.lost_records._COLLECT_S", 0.2)
    monkeypatch.setattr("livedex.consumers.lost_records._MIN_AGE_S", 0.0)
    monkeypatch.setattr("livedex.consumers.kafka.output_topics._RETRY_EVERY_S", 0.2)
    monkeypatch.setitem(
        KafkaBroker.__init__.__globals__["PRODUCER_OPTIONS"], "metadata_max_age_ms", 500
    )


@asynccontextmanager
async def administrator(servers: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


class Stage:
    """A chunk stage that notes what it ends."""

    def __init__(self, servers: str, database: Database, **given: Any) -> None:
        self.settings: KafkaSettings = kafka_settings(**given)
        self.topic = self.settings.prefix + CHANGED
        self.ended: list[str] = []
        self.start = stage_on_kafka(servers, database, self.settings)

    async def run(self, event: Event[Any]) -> Finished:
        self.ended.append(event.document_id)
        return Finished()

    async def ends(self, bench: StageHarness, *names: str) -> None:
        """Publish documents and wait until they have ended."""
        await bench.publish(*names)
        await wait_until(lambda: set(names) <= set(self.ended))


def clients_of(bench: StageHarness) -> list[Any]:
    assert isinstance(bench.broker, KafkaBroker)
    return bench.broker._clients()


async def test_when_all_brokers_have_other_addresses_the_bootstrap_servers_are_asked_again(
    kafka: str, database: Database
) -> None:
    stage, gone = Stage(kafka, database), ReservedPort()
    async with stage.start(stage.run) as bench:
        await stage.ends(bench, "before")
        for client in clients_of(bench):
            client.cluster._brokers = {
                broker.nodeId: BrokerMetadata(broker.nodeId, "127.0.0.1", gone.number, None)
                for broker in client.cluster.brokers()
            }
            for connection in list(client._conns.values()):
                connection.close()
        await stage.ends(bench, "after")
    gone.close()


async def test_partitions_that_are_added_are_read(kafka: str, database: Database) -> None:
    stage = Stage(kafka, database, partitions=1)
    async with stage.start(stage.run) as bench, administrator(kafka) as admin:
        await stage.ends(bench, "before")
        await admin.create_partitions({stage.topic: NewPartitions(4)})
        names = [f"d{n}" for n in range(20)]
        await stage.ends(bench, *names)

        async def spread() -> bool:
            return (
                sum(
                    end > 0
                    for end in (
                        await ExternalKafkaClient(kafka, stage.settings.prefix).ends(CHANGED)
                    ).values()
                )
                > 1
            )

        while not await spread():
            await bench.publish(*names)
        await bench.wait_drained()


async def test_a_topic_that_was_made_again_is_read_from_its_beginning(
    kafka: str, database: Database
) -> None:
    stage = Stage(kafka, database, partitions=1)
    async with stage.start(stage.run) as bench, administrator(kafka) as admin:
        await stage.ends(bench, *(f"old{n}" for n in range(20)))
        await bench.wait_drained()
        await admin.delete_topics([stage.topic])
        await until_made(admin, stage.topic)
        await stage.ends(bench, "new0", "new1", "new2")
        await bench.wait_drained()
        committed = await ExternalKafkaClient(kafka, stage.settings.prefix).committed(
            CHANGED, "chunk"
        )
    assert committed == {0: 3}, "offsets of the old topic are committed for the new one"


async def until_made(admin: AIOKafkaAdminClient, topic: str) -> None:
    async def made() -> bool:
        answer = await admin.create_topics([NewTopic(topic, 1, 1)])
        return (
            all(code in (0, 36) for _, code, *_ in answer.topic_errors)
            and topic in await admin.list_topics()
        )

    await wait_until(made)


async def remove(servers: str, topic: str, before: int) -> None:
    """Remove what stands before an offset, as retention does."""
    async with administrator(servers) as admin:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(before)})


async def test_records_that_were_removed_before_they_were_read_are_counted_told_and_published_again(
    installation: KafkaInstallation,
) -> None:
    async with installation.process() as process:
        await process.accept(change("kept.md", 1, text(0)))
        await process.ended()
    # their steps stand in livedex.chunked, which nobody reads yet
    async with installation.process(("chunk",)) as process:
        await process.accept(*(change(f"d{n}.md", 1, text(n)) for n in range(5)))
        await process.wait_stage_processed("chunk")
    await remove(installation.servers, installation.kafka.prefix + "livedex.chunked", 6)
    async with installation.process() as process:
        losses = process.s.metrics.records_expired_total.labels("embed")
        await wait_until(lambda: losses._value.get() == 5)

        async def reported() -> bool:
            state, reason = await process.health("retention") or ("", "")
            return state == "down" and "5 of the stage embed" in (reason or "")

        # the health is written after the count, by the next look
        await wait_until(reported)

        async def visible() -> bool:
            return all([await process.state(f"d{n}.md") == ("synced", 1) for n in range(5)])

        await wait_until(visible)


async def test_where_others_cannot_be_told_documents_go_on_and_what_they_are_told_waits(
    installation: KafkaInstallation,
) -> None:
    prefix = installation.kafka.prefix
    async with installation.process() as process, administrator(installation.servers) as admin:
        await process.accept(change("before.md", 1, text(0)))
        await process.ended()
        await admin.delete_topics([prefix + DEAD, prefix + SYNCED])

        async def gone() -> bool:
            return not {prefix + DEAD, prefix + SYNCED} & set(await admin.list_topics())

        await wait_until(gone)
        for n in range(20):
            await installation.external_client.send(CHANGED, b"poison", b"acme/poison%d" % n)
        await process.accept(change("behind.md", 1, text(1)))
        await process.ended()
        assert await process.state("behind.md") == ("synced", 1)
        assert await process.s.operations.count_dead_letters() == 20
        state, reason = await process.health("topic:livedex.dead") or ("", "")
        assert state == "down" and "livedex migrate" in (reason or "")
        await until_made(admin, prefix + DEAD)
        await until_made(admin, prefix + SYNCED)

        async def told() -> bool:
            return (
                len(await installation.external_client.records(DEAD)) == 20
                and len(await installation.external_client.records(SYNCED)) >= 1
            )

        await wait_until(told)


async def test_a_record_that_kafka_refuses_costs_its_neighbours_nothing_and_one_new_producer(
    kafka: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    stage = Stage(kafka, database, partitions=1)
    topic = stage.settings.prefix + DEAD
    caplog.set_level("INFO", "livedex.consumers.kafka.producer")
    async with stage.start(stage.run) as bench:
        assert isinstance(bench.broker, KafkaBroker)
        producer = bench.broker._producer
        large = random.Random(7).randbytes(3 * 1024 * 1024)
        values = [large if n == 20 else b"small%d" % n for n in range(200)]
        sent = [await producer.send(topic, value, b"key") for value in values]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        assert [type(answer) for answer in answers if isinstance(answer, Exception)] == [
            MessageSizeTooLargeError
        ]
        await (await producer.send(topic, b"last", b"key"))
    kept = [
        record.value
        for record in await ExternalKafkaClient(kafka, stage.settings.prefix).records(DEAD)
    ]
    assert set(kept) == {value for value in values if value != large} | {b"last"}
    assert sum("new producer" in record.message for record in caplog.records) == 1


async def test_a_key_of_megabytes_is_one_dead_letter_and_holds_up_nothing(
    installation: KafkaInstallation, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "livedex.consumers.kafka.producer")
    async with installation.process() as process:
        await installation.external_client.send(
            CHANGED, b"{}", random.Random(7).randbytes(5 * 1024 * 1024)
        )
        await process.accept(*(change(f"d{n}.md", 1, text(n)) for n in range(10)))
        await process.ended()
        assert [await process.state(f"d{n}.md") for n in range(10)] == [("synced", 1)] * 10
        assert await process.s.operations.count_dead_letters() == 1
        await until_told(installation)
    assert not [record for record in caplog.records if "new producer" in record.message]


async def until_told(installation: KafkaInstallation) -> None:
    async def told() -> bool:
        return len(await installation.external_client.records(DEAD)) == 1

    await wait_until(told)


async def test_topics_that_exist_are_checked_at_each_start(kafka: str) -> None:
    settings, told = kafka_settings(), list[str]()
    outside = ExternalKafkaClient(kafka, settings.prefix)
    await ensure_topics(settings, (kafka,))
    assert await ensure_topics(settings, (kafka,), told.append) == [] and told == []
    await outside.configure(CHANGED, {"cleanup.policy": "compact", "retention.ms": "2592000000"})
    assert (
        await ensure_topics(settings.model_copy(update={"partitions": 5}), (kafka,), told.append)
        == []
    )
    assert (
        any("is compacted" in said for said in told)
        and sum("has 3 partitions" in said for said in told) == 5
    )
    await outside.configure(CHANGED, {"retention.ms": "60000"})
    with pytest.raises(
        ConfigError,
        match=r"livedex\.changed keeps records for 0\.017 hours.*--add-config retention\.ms=",
    ):
        await ensure_topics(settings, (kafka,))
