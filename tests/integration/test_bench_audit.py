"""What the benchmarks over Kafka are judged by: offsets that are ahead of their outcomes, and
groups that are handed out anew.
"""

from __future__ import annotations

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from bench.audit import OffsetAudit
from bench.rebalances import generations
from livedex.consumers.kafka.consumer_lag import consumer_group_id
from livedex.consumers.kafka.topics import ensure_topics
from livedex.pipeline.events.event import CHANGED, CHUNKED, Changed, change_event, next_stage_event
from livedex.pipeline.settings.kafka import KafkaSettings
from tests.support.pipelines.stage_runner import kafka_settings

EVENT = change_event(Changed(tenant_id="t", document_id="d", version=5, deleted=True))


@pytest.fixture
async def settings(kafka: str) -> KafkaSettings:
    found = kafka_settings(partitions=1)
    await ensure_topics(found, (kafka,))
    return found


@pytest.fixture
async def audit(kafka: str, settings: KafkaSettings, owner_url: str) -> OffsetAudit:
    """After a record was read by the chunk stage, which has committed it."""
    await put(kafka, settings.prefix + CHANGED, EVENT.encode())
    await join(kafka, settings, commit=1)
    return OffsetAudit(settings, kafka, owner_url)


async def put(kafka: str, topic: str, value: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    await producer.send_and_wait(topic, value, key=b"t/d")
    await producer.stop()


async def join(kafka: str, settings: KafkaSettings, commit: int | None = None) -> None:
    topic = settings.prefix + CHANGED
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka,
        group_id=consumer_group_id(settings, "chunk"),
        enable_auto_commit=False,
    )
    await consumer.start()
    if commit is not None:
        await consumer.commit({TopicPartition(topic, 0): commit})
    await consumer.stop()


async def test_a_committed_record_without_an_outcome_is_told(audit: OffsetAudit) -> None:
    await audit.look()
    assert audit.records == 1
    assert len(audit.ahead) == 1 and "'d'" in audit.ahead[0]


async def test_a_record_that_is_committed_is_judged_once(audit: OffsetAudit) -> None:
    await audit.look()
    await audit.look()
    assert (audit.records, len(audit.ahead)) == (1, 1)


async def test_an_event_on_the_next_topic_is_an_outcome(
    audit: OffsetAudit, kafka: str, settings: KafkaSettings
) -> None:
    await put(
        kafka,
        settings.prefix + CHUNKED,
        next_stage_event(CHUNKED, EVENT, EVENT.data.fence).encode(),
    )
    await audit.look()
    assert (audit.records, audit.ahead) == (1, [])


@pytest.mark.parametrize(
    ("column", "version", "ended"),
    [
        ("version", 5, True),
        ("version", 4, False),
        ("dead_version", 5, True),
        ("pending_version", 6, True),
        ("pending_version", 5, False),
    ],
)
async def test_the_document_tells_whether_a_record_has_ended(
    audit: OffsetAudit, owner: asyncpg.Connection, column: str, version: int, ended: bool
) -> None:
    await owner.execute("insert into tenants (tenant_id) values ('t')")
    await owner.execute(
        f"insert into documents (tenant_id, document_id, {column}) values ('t', 'd', $1)", version
    )
    await audit.look()
    assert audit.records == 1
    assert (audit.ahead == []) is ended


async def test_a_record_that_is_no_event_needs_a_dead_letter(
    audit: OffsetAudit, kafka: str, settings: KafkaSettings, owner: asyncpg.Connection
) -> None:
    await put(
        kafka,
        settings.prefix + CHUNKED,
        next_stage_event(CHUNKED, EVENT, EVENT.data.fence).encode(),
    )
    await put(kafka, settings.prefix + CHANGED, b"no event")
    await put(kafka, settings.prefix + CHANGED, b"no event either")
    await join(kafka, settings, commit=3)
    await owner.execute(
        "insert into dead_letters (letter_id, tenant_id, stage, reason, detail, attempts, "
        "topic, place, payload) "
        "values ('1', '', 'chunk', 'invalid_event', '', 1, $1, "
        """'{"partition": 0, "offset": 1}', '')""",
        CHANGED,
    )
    await audit.look()
    assert audit.records == 3
    assert len(audit.ahead) == 1 and "-0 at 2:" in audit.ahead[0]


async def test_a_generation_grows_with_every_member_that_joins(
    kafka: str, settings: KafkaSettings
) -> None:
    group = consumer_group_id(settings, "chunk")
    assert await generations(kafka, [group]) == {group: 0}
    await join(kafka, settings)
    first = (await generations(kafka, [group]))[group]
    await join(kafka, settings)
    assert 0 < first < (await generations(kafka, [group]))[group]
