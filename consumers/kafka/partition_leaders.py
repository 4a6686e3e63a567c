"""Which partitions have no leader: what needs one of them waits, without a worker, and everything
else goes on.

A partition is offline while all nodes with its replicas are unavailable. The client library would
keep a record for it for 40 s, then break the numbers of its idempotent producer; so nothing is
handed to the producer for a partition that is known to be offline.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from aiokafka import TopicPartition

from livedex.pipeline.errors import PartialOutageError

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer
    from aiokafka.client import AIOKafkaClient

log = logging.getLogger(__name__)

COMPONENT = "broker:partitions"
READER_EVERY_S, WRITER_EVERY_S = 0.1, 0.02


class PartitionLeaders:
    """Says where a record would go, and whether that partition can take it.

    Args:
        producer: returns the present producer, or None.
        on_health: told `COMPONENT` and how many partitions of which topics have no leader, and with
            None once all have one.
    """

    def __init__(
        self,
        producer: Callable[[], AIOKafkaProducer | None],
        on_health: Callable[[str, str | None], None],
    ) -> None:
        self._producer, self._on_health = producer, on_health
        self._returns: dict[TopicPartition, asyncio.Event] = {}
        self._told: str | None = None

    def partition_of(self, topic: str, key: bytes | None) -> int | None:
        """Return the partition that the producer puts a key in; None where that is not known, or
        left to chance.
        """
        producer = self._producer()
        if (
            producer is None
            or key is None
            or not producer.client.cluster.partitions_for_topic(topic)
        ):
            return None
        return int(producer._partition(topic, None, None, None, key, None))

    def is_offline(self, topic: str, key: bytes | None) -> bool:
        """Return whether the partition of a key is known to have no leader."""
        return self._offline(topic, key) is not None

    def wait_for_leader(self, topic: str, key: bytes | None) -> asyncio.Event | None:
        """Return what is set once the partition of a key has a leader again; None where it has
        one, as far as is known.
        """
        partition = self._offline(topic, key)
        return None if partition is None else self._returns.setdefault(partition, asyncio.Event())

    def check(self, topic: str, key: bytes | None) -> None:
        """Pass where the partition of a key has a leader, as far as is known.

        Raises:
            PartialOutageError: it has none.
        """
        if (partition := self._offline(topic, key)) is not None:
            raise PartialOutageError(
                "broker",
                f"partition {partition.partition} of {topic} has no leader: the nodes that "
                "hold it are unavailable",
            )

    def _offline(self, topic: str, key: bytes | None) -> TopicPartition | None:
        producer = self._producer()
        if producer is None or not offline_partitions(producer.client, topic):
            return None
        number = self.partition_of(topic, key)
        found = None if number is None else TopicPartition(topic, number)
        return (
            found
            if found is not None and producer.client.cluster.leader_for_partition(found) == -1
            else None
        )

    def look(self, topics: Iterable[str]) -> None:
        """Tell which partitions of some topics are offline, and wake what waited for those that
        are not any more.
        """
        producer = self._producer()
        if producer is None:
            return
        client, said = producer.client, []
        for topic in topics:
            client.add_topic(topic)
            if offline := offline_partitions(client, topic):
                said.append(
                    f"{len(offline)} of {len(client.cluster.partitions_for_topic(topic))} "
                    f"partitions of {topic} have no leader"
                )
        for partition in list(self._returns):
            leader = client.cluster.leader_for_partition(partition)
            if leader is not None and leader != -1:
                self._returns.pop(partition).set()
        if said or self._returns:
            client.force_metadata_update()
        reason = "; ".join(said) or None
        if reason != self._told:
            log.warning("Kafka: %s", reason or "every partition has a leader again")
            self._told = reason
            self._on_health(COMPONENT, reason)


def offline_partitions(client: AIOKafkaClient, topic: str) -> set[int]:
    """Return the partitions of a topic that have no leader, as far as a client knows."""
    cluster = client.cluster
    return (cluster.partitions_for_topic(topic) or set()) - (
        cluster.available_partitions_for_topic(topic) or set()
    )


def has_leader(client: AIOKafkaClient, partition: TopicPartition) -> bool:
    """Return whether a client knows a leader of a partition."""
    leader = client.cluster.leader_for_partition(partition)
    return leader is not None and leader != -1


def limit_metadata_requests(client: AIOKafkaClient, every_s: float = READER_EVERY_S) -> None:
    """Let a client ask for metadata so often at most: while a partition has no leader, the library
    asks again as soon as it has the answer.

    Args:
        every_s: seconds; while a producer holds a record for such a partition, it sends nothing
            else in between.
    """
    if hasattr(client, "livedex_paced"):
        return
    client.livedex_paced = True
    ask, last = client._metadata_update, 0.0

    async def paced(*given: Any) -> Any:
        nonlocal last
        if (early_s := last + every_s - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        last = time.monotonic()
        return await ask(*given)

    client._metadata_update = paced
