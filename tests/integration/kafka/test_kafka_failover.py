"""Three nodes, of which the one that leads is killed while changes are published and worked on."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from aiokafka import TopicPartition

from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import CHANGED, Event
from livedex.pipeline.stages.outcome import Finished
from livedex.pipeline.store.database import Database
from tests.support.kafka.external_client import ExternalKafkaClient, wait_until
from tests.support.kafka.server import KafkaCluster
from tests.support.pipelines.stage_runner import kafka_settings, stage_on_kafka


async def test_nothing_is_lost_when_the_leader_is_killed(
    kafka_cluster: KafkaCluster, database: Database
) -> None:
    settings, done, refused = (
        kafka_settings(partitions=3, session_timeout_s=6),
        Counter[str](),
        list[str](),
    )
    outside, names = (
        ExternalKafkaClient(kafka_cluster.bootstrap, settings.prefix),
        [f"d{n}" for n in range(90)],
    )

    async def run(event: Event[Any]) -> Finished:
        await asyncio.sleep(0.01)
        done[event.document_id] += 1
        return Finished()

    async with stage_on_kafka(kafka_cluster.bootstrap, database, settings)(run) as bench:

        async def publish(name: str) -> None:
            while True:
                try:
                    return await bench.publish(name)
                except OutageError:  # not accepted: whoever publishes tries again
                    refused.append(name)

        async def publish_all() -> None:
            for name in names:
                await publish(name)

        publishing = asyncio.create_task(publish_all())
        await wait_until(lambda: len(done) >= 20)
        async with outside.producer() as producer:
            leader = producer.client.cluster.leader_for_partition(
                TopicPartition(settings.prefix + CHANGED, 0)
            )
            if leader is None:
                await producer.partitions_for(settings.prefix + CHANGED)
                leader = producer.client.cluster.leader_for_partition(
                    TopicPartition(settings.prefix + CHANGED, 0)
                )
        await asyncio.to_thread(kafka_cluster.nodes[leader - 1].kill)
        await publishing
        await wait_until(lambda: set(done) == set(names))
        await bench.wait_drained(60)
        assert await bench.letters.all() == []
    assert sum(done.values()) <= len(names) + len(refused) + 3 * 2 * 16, (
        "more came again than was under way"
    )
