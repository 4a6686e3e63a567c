"""Check existing topics; refuse those that lose records or cannot be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from livedex.pipeline.events.event import CHANGED, CHUNKED, EMBEDDED

if TYPE_CHECKING:
    from aiokafka.admin import AIOKafkaAdminClient

    from livedex.consumers.kafka.topics import TopicPlan

SHORTEST_RETENTION_MS = 3_600_000
_HOUR_MS = 3_600_000.0
_READ = (CHANGED, CHUNKED, EMBEDDED)
"""Suffixes of topics that stages consume; only these can lose records."""


@dataclass(frozen=True, slots=True)
class ExistingTopic:
    """Present state of a topic.

    Attributes:
        partitions: number.
        replication: smallest number of replicas of a partition.
        config: in Kafka's names; empty if this user may not see it.
    """

    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicProblem:
    """A problem of a topic.

    Attributes:
        topic: full name.
        message: the problem, its effect, and the command that fixes it.
        is_fatal: records would be lost, or nothing could be written.
    """

    topic: str
    message: str
    is_fatal: bool

    def __str__(self) -> str:
        return f"the topic {self.topic} {self.message}"


async def existing_topics(admin: AIOKafkaAdminClient, names: list[str]) -> dict[str, ExistingTopic]:
    """Return the present state of existing topics.

    Args:
        admin: client.
        names: full names.

    Raises:
        KafkaError: Kafka does not answer.
    """
    described: Any = await admin.describe_topics(names)
    configs: dict[str, dict[str, str]] = {}
    for answer in await admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    ):
        for code, _, _, name, entries in answer.resources:
            configs[name] = (
                {} if code else {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            )
    found = {}
    for topic in described:
        partitions = topic["partitions"]
        if partitions and not topic["error_code"]:
            replication = min(len(partition["replicas"]) for partition in partitions)
            found[topic["topic"]] = ExistingTopic(
                len(partitions), replication, configs.get(topic["topic"], {})
            )
    return found


def check_topic(plan: TopicPlan, topic: ExistingTopic) -> list[TopicProblem]:
    """Return the problems of an existing topic.

    Args:
        plan: its target state.
        topic: its present state.
    """
    return [
        TopicProblem(plan.name, said, refused and plan.name.endswith(_READ))
        for said, refused in (
            *_sizes(plan, topic),
            *_retention(plan, topic.config),
            *_policy(plan, topic.config),
        )
    ]


def _sizes(plan: TopicPlan, topic: ExistingTopic) -> list[tuple[str, bool]]:
    found = []
    if topic.partitions < plan.partitions:
        more = f"kafka-topics.sh --alter --topic {plan.name} --partitions {plan.partitions}"
        found.append(
            (
                f"has {topic.partitions} partitions: no more processes of a stage can work "
                f"({more})",
                False,
            )
        )
    if topic.replication < plan.replication:
        found.append(
            (
                f"has {topic.replication} replicas, not {plan.replication}: what they hold "
                "is lost with their disks",
                False,
            )
        )
    in_sync = _number(topic.config, "min.insync.replicas")
    if in_sync is not None and in_sync > topic.replication:
        found.append(
            (
                f"wants {in_sync} replicas in sync and has {topic.replication}: nothing can "
                f"be written. {_alter(plan, 'min.insync.replicas')}",
                True,
            )
        )
    elif in_sync is not None and in_sync < (
        wanted := int(plan.config.get("min.insync.replicas", "1"))
    ):
        found.append(
            (
                f"is written with {in_sync} replicas in sync, not {wanted}. "
                f"{_alter(plan, 'min.insync.replicas')}",
                False,
            )
        )
    return found


def _retention(plan: TopicPlan, config: Mapping[str, str]) -> list[tuple[str, bool]]:
    found = []
    kept_ms, wanted_ms = _number(config, "retention.ms"), int(plan.config["retention.ms"])
    if (
        "delete" in config.get("cleanup.policy", "delete")
        and kept_ms is not None
        and 0 <= kept_ms < wanted_ms
    ):
        short = kept_ms < min(SHORTEST_RETENTION_MS, wanted_ms)
        said = (
            f"keeps records for {kept_ms / _HOUR_MS:.2g} hours, not {wanted_ms / _HOUR_MS:.4g}: "
            "what a stage has not read by then is lost"
        )
        found.append((f"{said}. {_alter(plan, 'retention.ms')}", short))
    kept_bytes = _number(config, "retention.bytes")
    if kept_bytes is not None and kept_bytes >= 0:
        said = (
            f"keeps {kept_bytes} bytes of each partition (retention.bytes): what stands before "
            "them and was not read is lost"
        )
        found.append((f"{said}. {_alter(plan, 'retention.bytes', '-1')}", False))
    return found


def _policy(plan: TopicPlan, config: Mapping[str, str]) -> list[tuple[str, bool]]:
    found = []
    if "compact" in config.get("cleanup.policy", ""):
        said = (
            "is compacted: it refuses records without a key, and keeps of each document the "
            "newest record alone"
        )
        found.append((f"{said}. {_alter(plan, 'cleanup.policy')}", False))
    most, wanted = _number(config, "max.message.bytes"), _number(plan.config, "max.message.bytes")
    if most is not None and wanted is not None and most < wanted:
        found.append(
            (
                f"takes records of {most} bytes at most, not {wanted}. "
                f"{_alter(plan, 'max.message.bytes')}",
                False,
            )
        )
    return found


def _number(config: Mapping[str, str], name: str) -> int | None:
    try:
        return int(config[name])
    except (KeyError, ValueError):
        return None


def _alter(plan: TopicPlan, name: str, value: str | None = None) -> str:
    wanted = plan.config.get(name, "1") if value is None else value
    return f"Run: kafka-configs.sh --alter --topic {plan.name} --add-config {name}={wanted}"
