"""Topics as they should be, and what an administrator is told."""

from __future__ import annotations

import shlex

import pytest
from aiokafka import errors

from livedex.consumers.kafka.topics import _refuse, topic_plans
from livedex.pipeline.errors import ConfigError, OutageError
from livedex.pipeline.events.event import CHANGED, CHUNKED, DEAD, EMBEDDED, SYNCED
from livedex.pipeline.settings.kafka import KafkaSettings

ALL = (CHANGED, CHUNKED, EMBEDDED, SYNCED, DEAD)


def test_there_is_a_plan_for_every_topic_with_the_prefix_of_the_installation() -> None:
    plans = topic_plans(KafkaSettings(prefix="mine.", partitions=7, retention_days=2))
    assert [plan.name for plan in plans] == [f"mine.{name}" for name in ALL]
    assert {plan.partitions for plan in plans} == {7}
    assert {plan.config["retention.ms"] for plan in plans} == {str(2 * 86_400_000)}
    assert {plan.config["cleanup.policy"] for plan in plans} == {"delete"}


def test_changes_may_be_larger_than_what_the_stages_write() -> None:
    sizes = {
        plan.name: plan.config.get("max.message.bytes") for plan in topic_plans(KafkaSettings())
    }
    assert int(sizes[CHANGED] or 0) > 1024 * 1024
    assert [sizes[name] for name in ALL[1:]] == [None] * 4


@pytest.mark.parametrize(
    ("brokers", "given", "replication", "in_sync"),
    [
        (1, None, 1, None),
        (2, None, 2, None),
        (3, None, 3, "2"),
        (9, None, 3, "2"),
        (9, 5, 5, "2"),
        (1, 3, 3, "2"),
        (3, 1, 1, None),
    ],
)
def test_copies_are_three_or_as_many_as_there_are_brokers_unless_said_otherwise(
    brokers: int, given: int | None, replication: int, in_sync: str | None
) -> None:
    for plan in topic_plans(KafkaSettings(replication=given), brokers):
        assert (plan.replication, plan.config.get("min.insync.replicas")) == (replication, in_sync)


def test_the_command_of_a_plan_can_be_typed() -> None:
    plan = topic_plans(KafkaSettings(prefix="mine.", partitions=7))[0]
    words = shlex.split(plan.command())
    assert words[:3] == ["kafka-topics.sh", "--create", "--if-not-exists"]
    assert words[words.index("--topic") + 1] == "mine.livedex.changed"
    assert words[words.index("--partitions") + 1] == "7"
    assert {f"{name}={value}" for name, value in plan.config.items()} <= set(words)


def refused(error: type[errors.KafkaError], message: str | None = None) -> Exception | None:
    """What becomes of an answer of Kafka."""
    plans = topic_plans(KafkaSettings())
    try:
        _refuse(plans[0], error.errno, message, plans)
    except (ConfigError, OutageError) as exc:
        return exc
    return None


def test_a_topic_that_another_process_made_meanwhile_is_fine() -> None:
    assert refused(errors.TopicAlreadyExistsError) is None


@pytest.mark.parametrize(
    "error", [errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError]
)
def test_where_kafka_forbids_it_the_refusal_holds_a_command_for_every_topic(
    error: type[errors.KafkaError],
) -> None:
    told = refused(error)
    assert isinstance(told, ConfigError)
    assert all(f"--topic {name} " in str(told) for name in ALL)


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (errors.InvalidReplicationFactorError, "LIVEDEX_KAFKA_REPLICATION"),
        (errors.InvalidPartitionsError, "LIVEDEX_KAFKA_PARTITIONS"),
        (errors.PolicyViolationError, "LIVEDEX_KAFKA_PARTITIONS"),
    ],
)
def test_what_can_never_be_made_names_the_setting_and_what_kafka_said(
    error: type[errors.KafkaError], setting: str
) -> None:
    told = refused(error, "as the broker says")
    assert isinstance(told, ConfigError)
    assert setting in str(told) and "as the broker says" in str(told)


def test_a_cluster_that_is_not_ready_is_waited_for() -> None:
    assert isinstance(refused(errors.NotControllerError), OutageError)


@pytest.mark.parametrize(
    "error",
    [
        errors.TopicAuthorizationFailedError,
        errors.InvalidPartitionsError,
        errors.NotControllerError,
    ],
)
def test_a_refusal_is_one_line_that_names_the_topic(error: type[errors.KafkaError]) -> None:
    assert CHANGED in str(refused(error)) and "\n" not in str(refused(error))
