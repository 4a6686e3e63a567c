"""How often consumer groups were handed their partitions anew: the generation that Kafka's group
coordinator has written down last.
"""

from __future__ import annotations

from collections.abc import Collection

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

_TOPIC = "__consumer_offsets"
_GROUP_METADATA = 2  # version of keys; 0 and 1 are offsets
_FLEXIBLE = 4  # version of values from which strings have their length as a varint


async def generations(bootstrap: str, groups: Collection[str]) -> dict[str, int]:
    """The generation of each of these groups; 0 for one that Kafka does not know.

    Source: GroupMetadataKey.json and GroupMetadataValue.json of Apache Kafka.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        described = await admin.describe_topics([_TOPIC])
    finally:
        await admin.close()
    partitions = [TopicPartition(_TOPIC, p["partition"]) for p in described[0]["partitions"]]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, exclude_internal_topics=False
    )
    await consumer.start()
    found = dict.fromkeys(groups, 0)
    try:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        left = {
            partition
            for partition in partitions
            if ends[partition] > await consumer.position(partition)
        }
        while left:
            for partition, records in (await consumer.getmany(timeout_ms=200)).items():
                for record in records:
                    group = _group(record.key)
                    if group in found and record.value is not None:
                        found[group] = _generation(record.value)
                if await consumer.position(partition) >= ends[partition]:
                    left.discard(partition)
    finally:
        await consumer.stop()
    return found


def _group(key: bytes) -> str | None:
    """The group that a record describes; None for a record of another kind."""
    if int.from_bytes(key[:2]) != _GROUP_METADATA:
        return None
    return key[4 : 4 + int.from_bytes(key[2:4])].decode()


def _generation(value: bytes) -> int:
    flexible = int.from_bytes(value[:2]) >= _FLEXIBLE
    # of the protocol's type, which is short
    length, at = (value[2] - 1, 3) if flexible else (int.from_bytes(value[2:4]), 4)
    return int.from_bytes(value[at + length : at + length + 4])
