"""Track partitions without a leader; only records for them wait, without a worker.

A partition is offline while all nodes with its replicas are unavailable. The client library would
keep a record for it for 40 s and then break the sequence numbers of its idempotent producer. So the
producer gets no record for a partition that is known to be offline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from aiokafka import TopicPartition

from livedex.consumers.kafka.compat import partition_for_key
from livedex.pipeline.errors import PartialOutageError

if TYPE_CHECKING:
    from aiokafka import AIOKafkaProducer
    from aiokafka.client import AIOKafkaClient

log = logging.getLogger(__name__)

COMPONENT = "broker:partitions"


class PartitionLeaders:
    """Finds the partition of a record, and whether it has a leader.

    Args:
        producer: returns the present producer, or None.
        on_health: called with `COMPONENT` and the offline partitions, and with None once there are
            none.
    """

    def __init__(
        self,
        producer: Callable[[], AIOKafkaProducer | None],
        on_health: Callable[[str, str | None], None],
    ) -> None:
        self._producer, self._on_health = producer, on_health
        self._returns: dict[TopicPartition, asyncio.Event] = {}
        self._reported: str | None = None

    def partition_of(self, topic: str, key: bytes | None) -> int | None:
        """Return the partition of a key; None if it is unknown or random.

        Args:
            topic: full name.
            key: of a record.
        """
        producer = self._producer()
        if (
            producer is None
            or key is None
            or not producer.client.cluster.partitions_for_topic(topic)
        ):
            return None
        return partition_for_key(producer, topic, key)

    def wait_for_leader(self, topic: str, key: bytes | None) -> asyncio.Event | None:
        """Return an event that is set once the partition of a key has a leader again; None if it is
        not known to be offline.

        Args:
            topic: full name.
            key: of a record.
        """
        partition = self._offline(topic, key)
        return None if partition is None else self._returns.setdefault(partition, asyncio.Event())

    def check(self, topic: str, key: bytes | None) -> None:
        """Return if the partition of a key is not known to be offline.

        Args:
            topic: full name.
            key: of a record.

        Raises:
            PartialOutageError: it has no leader.
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

    def refresh(self, topics: Iterable[str]) -> None:
        """Report the offline partitions of topics, and wake records that waited for the others.

        Args:
            topics: full names.
        """
        producer = self._producer()
        if producer is None:
            return
        client, problems = producer.client, []
        for topic in topics:
            client.add_topic(topic)
            if offline := offline_partitions(client, topic):
                problems.append(
                    f"{len(offline)} of {len(client.cluster.partitions_for_topic(topic))} "
                    f"partitions of {topic} have no leader"
                )
        for partition in list(self._returns):
            leader = client.cluster.leader_for_partition(partition)
            if leader is not None and leader != -1:
                self._returns.pop(partition).set()
        if problems or self._returns:
            client.force_metadata_update()
        reason = "; ".join(problems) or None
        if reason != self._reported:
            log.warning("Kafka: %s", reason or "every partition has a leader again")
            self._reported = reason
            self._on_health(COMPONENT, reason)


def offline_partitions(client: AIOKafkaClient, topic: str) -> set[int]:
    """Return the partitions of a topic without a leader, by the metadata of a client."""
    cluster = client.cluster
    return (cluster.partitions_for_topic(topic) or set()) - (
        cluster.available_partitions_for_topic(topic) or set()
    )


def has_leader(client: AIOKafkaClient, partition: TopicPartition) -> bool:
    """Return whether a partition has a leader, by the metadata of a client."""
    leader = client.cluster.leader_for_partition(partition)
    return leader is not None and leader != -1
