"""Topics without replicas, one of three nodes away: what needs its partitions waits, and nothing
else does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.partitioner import murmur2

from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import CHANGED, CHUNKED, DEAD, EMBEDDED, SYNCED
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.kafka.external_client import wait_until
from tests.support.kafka.installation import InstallationProcess, KafkaInstallation, change, text
from tests.support.kafka.server import KafkaCluster
from tests.support.pipelines.stage_runner import kafka_settings

PARTITIONS = 6
# killed is node 1: of six kinds of documents, 0 and 3 cannot be accepted, 1 stops before `sync`, 5
# is not told of
NODE_OF_PARTITION = {
    CHANGED: (1, 2, 3, 1, 2, 3),
    CHUNKED: (1, 2, 3, 1, 2, 3),
    EMBEDDED: (1, 1, 2, 2, 3, 3),
    SYNCED: (2, 3, 2, 3, 2, 1),
    DEAD: (2, 3, 2, 3, 2, 3),
}


def names_in(partition: int, count: int, kind: str) -> list[str]:
    """Names of documents whose events are in a partition."""
    found: list[str] = []
    number = 0
    while len(found) < count:
        name = f"{kind}{number}"
        number += 1
        if (murmur2(f"acme/{name}".encode()) & 0x7FFFFFFF) % PARTITIONS == partition:
            found.append(name)
    return found


async def make_topics(servers: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        await admin.create_topics(
            [
                NewTopic(
                    prefix + topic,
                    -1,
                    -1,
                    replica_assignments={p: [node] for p, node in enumerate(nodes)},
                )
                for topic, nodes in NODE_OF_PARTITION.items()
            ]
        )
    finally:
        await admin.close()


class Documents:
    """Documents with one text of their own each."""

    def __init__(self, process: InstallationProcess, seeds: dict[str, int]) -> None:
        self._process, self._seeds = process, seeds

    async def accept(self, *names: str) -> None:
        for name in names:
            seed = self._seeds.setdefault(name, 1000 + len(self._seeds))
            await self._process.accept(change(name, 1, text(seed)))

    async def synced(self, *names: str) -> bool:
        return all([await self._process.state(name) == ("synced", 1) for name in names])


async def embed_waits(process: InstallationProcess, count: int) -> bool:
    """Whether the backlog of the embed stage is told, as far as it is known; at first its
    connections are to the node that was killed.
    """
    try:
        return (await process.s.backlog.waiting())["embed"].waiting >= count
    except OutageError:
        return False


async def test_only_what_needs_a_partition_without_a_leader_waits(
    unreplicated_cluster: KafkaCluster, owner_url: str, tmp_path: Path, embedder: EmbeddingServer
) -> None:
    cluster = unreplicated_cluster
    settings = kafka_settings(partitions=PARTITIONS, replication=1, session_timeout_s=6)
    await make_topics(cluster.bootstrap, settings.prefix)
    installation = KafkaInstallation(owner_url, cluster.bootstrap, settings, tmp_path, embedder)
    expected = "; ".join(
        f"2 of 6 partitions of {settings.prefix}{topic} have no leader"
        for topic in (CHANGED, CHUNKED, EMBEDDED)
    )
    seeds: dict[str, int] = {}
    async with installation.process() as process:
        documents = Documents(process, seeds)
        before = [name for p in range(PARTITIONS) for name in names_in(p, 2, "before")]
        await documents.accept(*before)
        await process.ended()

        under_way = [name for p in range(PARTITIONS) for name in names_in(p, 3, "under-way")]
        await documents.accept(*under_way)
        await asyncio.to_thread(cluster.nodes[0].kill)
        await wait_until(lambda: process.s.tell.down.get("broker:partitions") == expected)
        refused = [name for p in (0, 3) for name in names_in(p, 2, "refused")]
        for name in refused:
            with pytest.raises(
                OutageError, match=f"partition [03] of {settings.prefix}{CHANGED} has no leader"
            ):
                await documents.accept(name)
        held = names_in(1, 80, "held")  # more than there are workers
        await documents.accept(*held)
        going_on = [name for p in (2, 4, 5) for name in names_in(p, 10, "going-on")]
        await documents.accept(*going_on)
        await wait_until(lambda: documents.synced(*going_on))
        assert not await documents.synced(held[0])
        await wait_until(lambda: embed_waits(process, len(held)))

    async with installation.process() as process:
        documents = Documents(process, seeds)
        later = [name for p in (2, 4, 5) for name in names_in(p, 2, "later")]
        await documents.accept(*later)
        await wait_until(lambda: documents.synced(*later))

        await asyncio.to_thread(cluster.nodes[0].start)
        await wait_until(lambda: process.s.tell.down.get("broker:partitions", "none") == "none")
        await documents.accept(*refused)
        every = [*before, *under_way, *refused, *held, *going_on, *later]
        await wait_until(lambda: documents.synced(*every))
        await process.ended()
        assert await process.s.letters.all() == []
        assert len(embedder.embedded_documents) == len(set(embedder.embedded_documents)), (
            "no text was paid twice"
        )

        lost = {
            name
            for name in (*before, *under_way, *going_on)
            if name in names_in(5, 10, "under-way") + names_in(5, 10, "going-on")
        }

        async def told() -> bool:
            found = {
                (record.key or b"").decode()
                for record in await installation.external_client.records(SYNCED)
            }
            # what waited in the process that ended is not told
            return found >= {f"acme/{name}" for name in every if name not in lost}

        await wait_until(told)
