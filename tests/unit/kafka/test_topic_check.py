"""What is said of topics that exist and are not what they should be."""

from __future__ import annotations

import pytest

from livedex.consumers.kafka.topic_check import ExistingTopic, check_topic
from livedex.consumers.kafka.topics import topic_plans
from livedex.pipeline.events.event import CHANGED, DEAD, EMBEDDED
from livedex.pipeline.settings.kafka import KafkaSettings

PLANS = {plan.name: plan for plan in topic_plans(KafkaSettings())}


def problems(
    name: str = CHANGED, partitions: int = 12, replication: int = 3, **config: str
) -> list[tuple[bool, str]]:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return [
        (p.is_fatal, str(p))
        for p in check_topic(
            PLANS[name], ExistingTopic(partitions, replication, dict(PLANS[name].config) | settings)
        )
    ]


@pytest.mark.parametrize("name", [CHANGED, DEAD, EMBEDDED])
def test_what_livedex_made_is_right(name: str) -> None:
    assert problems(name) == []


@pytest.mark.parametrize(
    ("given", "said", "refused"),
    [
        ({"partitions": 1}, "1 partitions", False),
        ({"replication": 1, "min_insync_replicas": "1"}, "1 replicas", False),
        ({"replication": 1}, "nothing can be written", True),
        ({"min_insync_replicas": "1"}, "in sync", False),
        ({"cleanup_policy": "compact"}, "compacted", False),
        ({"cleanup_policy": "compact,delete"}, "compacted", False),
        ({"retention_ms": "60000"}, "--add-config retention.ms=2592000000", True),
        ({"retention_ms": "86400000"}, "24 hours", False),
        ({"retention_bytes": "1000000"}, "--add-config retention.bytes=-1", False),
        ({"max_message_bytes": "1048588"}, "1048588 bytes", False),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_and_what_loses_records_is_refused(
    given: dict[str, str], said: str, refused: bool
) -> None:
    found = problems(**given)  # type: ignore[arg-type]
    assert any(said in text and is_refused == refused for is_refused, text in found), found
    assert all(CHANGED in text for _, text in found)


def test_what_is_kept_for_ever_or_compacted_alone_is_not_too_short() -> None:
    assert problems(retention_ms="-1") == []
    assert [refused for refused, _ in problems(cleanup_policy="compact", retention_ms="60000")] == [
        False
    ]


def test_nothing_is_lost_of_what_others_are_told() -> None:
    assert [refused for refused, _ in problems(DEAD, retention_ms="60000")] == [False]


def test_a_wish_for_a_short_retention_is_no_fault() -> None:
    plan = next(p for p in topic_plans(KafkaSettings(retention_days=0.01)) if p.name == CHANGED)
    assert check_topic(plan, ExistingTopic(12, 3, plan.config)) == []


def test_a_topic_whose_settings_may_not_be_seen_is_not_spoken_against() -> None:
    assert check_topic(PLANS[CHANGED], ExistingTopic(12, 3, {})) == []
