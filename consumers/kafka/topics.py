"""Create missing topics at the start, or print the commands for administrators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicationFactorError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    for_code,
)

from livedex.consumers.kafka.connection import (
    client_arguments,
    diagnose_connection_failure,
    translate_kafka_errors,
)
from livedex.consumers.kafka.topic_check import check_topic, existing_topics
from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.events.event import CHANGED, CHUNKED, DEAD, EMBEDDED, SYNCED
from livedex.pipeline.settings.kafka import KafkaSettings

log = logging.getLogger(__name__)

_COPIES = 3
MAX_CHANGE_BYTES = 8 * 1024 * 1024  # other systems may send content inline


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """Target state of a topic.

    Attributes:
        name: full name.
        partitions: number.
        replication: factor.
        config: of the topic, in Kafka's names.
    """

    name: str
    partitions: int
    replication: int
    config: dict[str, str] = field(default_factory=dict)

    def command(self) -> str:
        """Return the command that creates the topic."""
        config = "".join(f" --config {name}={value}" for name, value in self.config.items())
        return (
            f"kafka-topics.sh --create --if-not-exists --topic {self.name} --partitions "
            f"{self.partitions} --replication-factor {self.replication}{config}"
        )


def topic_plans(settings: KafkaSettings, brokers: int = _COPIES) -> list[TopicPlan]:
    """Return every topic of an installation.

    Args:
        settings: of Kafka.
        brokers: of the cluster.

    Keys are tenant and document, and each change is whole: where a cluster compacts
    `livedex.changed`, nothing but what a newer change of the same document replaces is lost. We do
    not ask for it: a compacted topic refuses records without a key.
    """
    replication = settings.replication or min(_COPIES, brokers)
    kept = {
        "cleanup.policy": "delete",
        "retention.ms": str(int(settings.retention_days * 86_400_000)),
    }
    if replication >= _COPIES:
        kept["min.insync.replicas"] = "2"  # an accepted change stands on two disks
    # By the clock of one broker, a delete without a value is later than what it deletes, whatever
    # the clocks of those who wrote the two.
    config = {
        CHANGED: kept
        | {"max.message.bytes": str(MAX_CHANGE_BYTES), "message.timestamp.type": "LogAppendTime"}
    }
    names = (CHANGED, CHUNKED, EMBEDDED, SYNCED, DEAD)
    return [
        TopicPlan(settings.prefix + name, settings.partitions, replication, config.get(name, kept))
        for name in names
    ]


async def ensure_topics(
    settings: KafkaSettings,
    servers: tuple[str, ...],
    told: Callable[[str], None] = lambda said: log.warning("%s", said),
) -> list[str]:
    """Create missing topics; existing ones are checked and not changed.

    Args:
        settings: of Kafka.
        servers: to connect to.
        told: called with each problem of an existing topic.

    Returns:
        the names of the created topics.

    Raises:
        ConfigError: Kafka forbids the creation, or an existing topic would lose
            records.
        OutageError: Kafka does not answer.
    """
    admin = AIOKafkaAdminClient(**client_arguments(settings, servers), client_id="livedex-topics")
    try:
        with translate_kafka_errors("topics"):
            async with diagnose_connection_failure(settings, servers):
                await admin.start()
            there = set(await admin.list_topics())
            brokers = len((await admin.describe_cluster())["brokers"])
            plans = topic_plans(settings, brokers)
            await _check(admin, [plan for plan in plans if plan.name in there], told)
            missing = [plan for plan in plans if plan.name not in there]
            if not missing:
                return []
            answer = await admin.create_topics([_new(plan) for plan in missing])
        problems = {
            topic: (code, message) for topic, code, message, *_ in answer.topic_errors if code
        }
        for plan in missing:
            if plan.name in problems:
                _refuse(plan, *problems[plan.name], topic_plans(settings, brokers))
        log.info("topics made: %s", ", ".join(plan.name for plan in missing))
        return [plan.name for plan in missing]
    finally:
        await admin.close()


async def _check(
    admin: AIOKafkaAdminClient, plans: list[TopicPlan], told: Callable[[str], None]
) -> None:
    """Tell what is wrong with topics that are there.

    Raises:
        ConfigError: records would be lost.
    """
    if not plans:
        return
    found = await existing_topics(admin, [plan.name for plan in plans])
    problems = [
        problem
        for plan in plans
        if plan.name in found
        for problem in check_topic(plan, found[plan.name])
    ]
    refused = [problem for problem in problems if problem.is_fatal]
    if refused:
        raise ConfigError("; ".join(map(str, refused)))
    for problem in problems:
        told(str(problem))


def _new(plan: TopicPlan) -> NewTopic:
    return NewTopic(plan.name, plan.partitions, plan.replication, topic_configs=plan.config)


def _refuse(plan: TopicPlan, code: int, message: str | None, plans: list[TopicPlan]) -> None:
    kind = for_code(code)
    if kind is TopicAlreadyExistsError:
        return
    if kind in (TopicAuthorizationFailedError, ClusterAuthorizationFailedError):
        commands = "; ".join(p.command() for p in plans)
        raise ConfigError(
            f"the topic {plan.name} is missing and Kafka forbids making it: let an "
            f"administrator run: {commands}"
        )
    if kind is InvalidReplicationFactorError:
        raise ConfigError(
            f"the topic {plan.name} cannot be made: {message or kind.__name__}: set "
            "LIVEDEX_KAFKA_REPLICATION to the brokers there are"
        )
    if getattr(kind, "retriable", False):
        raise OutageError(
            "broker", f"the topic {plan.name} cannot be made now: {message or kind.__name__}"
        )
    raise ConfigError(
        f"the topic {plan.name} cannot be made: {message or kind.__name__}: see "
        "LIVEDEX_KAFKA_PARTITIONS and LIVEDEX_KAFKA_REPLICATION"
    )
