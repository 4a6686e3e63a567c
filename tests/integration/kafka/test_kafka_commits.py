"""The committed offset, read by a fresh client, is never ahead of an outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException

from livedex.consumers.kafka.topics import ensure_topics
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError
from livedex.pipeline.events.event import CHANGED, Changed, Event, change_event
from livedex.pipeline.stages.outcome import MAX_ATTEMPTS, Finished
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.dead_letter_store import DeadLetterStore
from tests.support.kafka.external_client import ExternalKafkaClient, wait_until
from tests.support.pipelines.stage_runner import kafka_settings, stage_on_kafka

STUCK = 1


def documents(letters: list[Any]) -> list[str | None]:
    """Whose letters they are."""
    return [letter.document_id for letter in letters]


async def publish(outside: ExternalKafkaClient, *names: str) -> None:
    """Deletes of these documents, one after the other, in one partition."""
    async with outside.producer() as producer:
        for name in names:
            event = change_event(Changed(tenant_id="t", document_id=name, version=1, deleted=True))
            await outside.put(producer, CHANGED, event.encode(), event.key().encode())


class Steps:
    """A stage whose second event fails or waits as it is told to.

    Attributes:
        tries: how often each document was tried.
        done: documents in the order in which they ended.
        gate: what the second event waits for.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.tries, self.done, self.gate, self.begun = (
            Counter[str](),
            list[str](),
            asyncio.Event(),
            asyncio.Event(),
        )
        self._error = error

    async def run(self, event: Event[Any]) -> Finished:
        """The stage."""
        self.tries[event.document_id] += 1
        if event.document_id == f"d{STUCK}":
            self.begun.set()
            if self._error is not None:
                raise self._error
            await self.gate.wait()
        self.done.append(event.document_id)
        return Finished()


async def test_nothing_is_committed_past_a_record_that_is_worked_on(
    kafka: str, database: Database
) -> None:
    settings, steps = kafka_settings(partitions=1), Steps()
    outside = ExternalKafkaClient(kafka, settings.prefix)
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2", "d3")
        await wait_until(lambda: steps.done == ["d0", "d2", "d3"])

        async def first_committed() -> bool:
            return (await outside.committed(CHANGED, "chunk"))[0] == STUCK

        await wait_until(first_committed)
        for _ in range(10):  # those behind it have ended, and still
            assert await first_committed()
            await asyncio.sleep(0.05)
        steps.gate.set()
        await wait_until(lambda: outside.ended(CHANGED, "chunk"))
    assert steps.tries == {"d0": 1, "d1": 1, "d2": 1, "d3": 1}


@pytest.mark.parametrize(
    ("error", "reason", "tries"),
    [
        (RetryableError("locked"), "retries_exhausted", MAX_ATTEMPTS),
        (ZeroDivisionError(), "failed", MAX_ATTEMPTS),
        (RejectedError("no"), RejectedError("x").reason, 1),
    ],
    ids=repr,
)
async def test_the_offset_passes_a_failing_record_once_its_letter_is_written(
    kafka: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    reason: str,
    tries: int,
) -> None:
    monkeypatch.setattr("livedex.pipeline.stages.outcome.FIRST_RETRY_DELAY_S", 0.01)
    settings, steps, letters = kafka_settings(partitions=1), Steps(error), DeadLetterStore(database)
    outside, seen = ExternalKafkaClient(kafka, settings.prefix), list[tuple[int, int]]()

    async def passed() -> bool:
        committed = (await outside.committed(CHANGED, "chunk"))[0]
        seen.append((committed, len(await letters.all())))
        return committed == 4

    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2", "d3")
        await wait_until(passed)
    assert all(committed <= STUCK or written == 1 for committed, written in seen), seen
    (letter,) = await letters.all()
    assert (letter.document_id, letter.reason, letter.attempts) == ("d1", reason, tries)
    assert steps.tries == {"d0": 1, "d1": tries, "d2": 1, "d3": 1}
    assert steps.done == ["d0", "d2", "d3"], "the neighbours wait for nobody"


async def test_the_offset_does_not_pass_a_record_whose_letter_cannot_be_written(
    kafka: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, steps, bury, refused = (
        kafka_settings(partitions=1),
        Steps(RejectedError("no")),
        DeadLetterStore.bury,
        0,
    )
    outside, letters, heals = (
        ExternalKafkaClient(kafka, settings.prefix),
        DeadLetterStore(database),
        asyncio.Event(),
    )

    async def failing(self: DeadLetterStore, *args: Any, **kwargs: Any) -> None:
        nonlocal refused
        if not heals.is_set():
            refused += 1
            raise (
                OutageError("database", "away", retry_after_s=0.05)
                if refused % 2
                else ConnectionResetError("gone")
            )
        await bury(self, *args, **kwargs)

    monkeypatch.setattr(DeadLetterStore, "bury", failing)
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2", "d3")
        await wait_until(lambda: refused >= 3 and len(steps.done) == 3)
        assert (await outside.committed(CHANGED, "chunk"))[0] <= STUCK
        assert await letters.all() == []
        heals.set()
        await wait_until(lambda: outside.ended(CHANGED, "chunk"))
    assert documents(await letters.all()) == ["d1"]


async def test_a_cancellation_at_the_stop_is_no_outcome(
    kafka: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.consumers.kafka.broker.DRAIN_S", 0.3)
    settings, steps, letters = kafka_settings(partitions=1), Steps(), DeadLetterStore(database)
    outside = ExternalKafkaClient(kafka, settings.prefix)
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2", "d3")
        await wait_until(lambda: steps.begun.is_set() and len(steps.done) == 3)
    assert (await outside.committed(CHANGED, "chunk"))[0] == STUCK
    assert await letters.all() == []
    again = Steps()
    again.gate.set()
    async with stage_on_kafka(kafka, database, settings)(again.run):
        await wait_until(lambda: outside.ended(CHANGED, "chunk"))
    assert again.tries["d1"] == 1 and set(again.tries) <= {"d1", "d2", "d3"}, (
        "what stood behind it may come again, what stood before may not"
    )


async def test_what_waits_to_be_tried_again_is_not_committed_at_a_stop(
    kafka: str, database: Database
) -> None:
    settings, steps = kafka_settings(partitions=1), Steps(RetryableError("busy", retry_after_s=60))
    outside = ExternalKafkaClient(kafka, settings.prefix)
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2")
        await wait_until(lambda: steps.begun.is_set() and len(steps.done) == 2)
    assert (await outside.committed(CHANGED, "chunk"))[0] == STUCK
    assert await DeadLetterStore(database).all() == []


async def test_an_outage_commits_nothing_and_blames_nobody(kafka: str, database: Database) -> None:
    settings, steps = (
        kafka_settings(partitions=1),
        Steps(OutageError("database", "away", retry_after_s=0.05)),
    )
    outside = ExternalKafkaClient(kafka, settings.prefix)
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d0", "d1", "d2")
        await wait_until(lambda: steps.tries["d1"] > MAX_ATTEMPTS and len(steps.done) == 2)
        assert (await outside.committed(CHANGED, "chunk"))[0] <= STUCK
    assert (await outside.committed(CHANGED, "chunk"))[0] == STUCK
    assert await DeadLetterStore(database).all() == []


async def test_a_new_group_begins_with_what_was_there_before_it(
    kafka: str, database: Database
) -> None:
    settings, steps = kafka_settings(partitions=1), Steps()
    steps.gate.set()
    outside = ExternalKafkaClient(kafka, settings.prefix)
    await ensure_topics(settings, tuple(kafka.split(",")))
    await publish(outside, "d0")
    async with stage_on_kafka(kafka, database, settings)(steps.run):
        await publish(outside, "d1")
        await wait_until(lambda: outside.ended(CHANGED, "chunk"))
    assert steps.done == ["d0", "d1"]


async def test_records_of_one_document_are_settled_in_order_though_the_first_one_is_tried_again(
    kafka: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("livedex.pipeline.stages.outcome.FIRST_RETRY_DELAY_S", 0.01)
    settings, seen = kafka_settings(partitions=1), list[tuple[str, int]]()

    async def run(event: Event[Any]) -> Finished:
        seen.append((event.document_id, event.data.version))
        if seen[-1] == ("d", 1) and seen.count(("d", 1)) == 1:
            raise RetryableError("once")
        return Finished()

    async with stage_on_kafka(kafka, database, settings)(run) as bench:
        events = [
            change_event(Changed(tenant_id="t", document_id=name, version=n, deleted=True))
            for n in (1, 2, 3)
            for name in ("d", "e")
        ]
        await bench.broker.publish(events)
        await bench.wait_drained()
    assert [version for name, version in seen if name == "d"] == [1, 1, 2, 3]
    assert [version for name, version in seen if name == "e"] == [1, 2, 3]


async def test_what_a_transaction_leaves_behind_is_no_backlog_and_what_was_given_up_has_no_effect(
    kafka: str, database: Database
) -> None:
    """Another system writes in transactions: each ends with a record that no consumer is given."""
    settings, steps = kafka_settings(partitions=1), Steps()
    outside = ExternalKafkaClient(kafka, settings.prefix)
    async with stage_on_kafka(kafka, database, settings)(steps.run) as bench:
        async with outside.producer(
            transactional_id=f"{settings.prefix}writer", enable_idempotence=True
        ) as producer:
            for name in ("kept", "given up", "kept too", "given up too"):
                event = change_event(
                    Changed(tenant_id="t", document_id=name, version=1, deleted=True)
                )
                await producer.begin_transaction()
                await outside.put(producer, CHANGED, event.encode(), event.key().encode())
                await (
                    producer.commit_transaction()
                    if name.startswith("kept")
                    else producer.abort_transaction()
                )
        await bench.wait_drained()
    assert steps.done == ["kept", "kept too"]


async def test_a_header_whose_name_is_no_utf8_holds_nobody_up(
    kafka: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)  # as before, at the end
    settings, steps = kafka_settings(partitions=3), Steps(RejectedError("no"))
    outside = ExternalKafkaClient(kafka, settings.prefix)
    await ensure_topics(settings, tuple(kafka.split(",")))
    async with outside.producer() as producer:
        for n in range(30):
            event = change_event(
                Changed(tenant_id="t", document_id=f"d{n}", version=1, deleted=True)
            )
            await outside.put(
                producer, CHANGED, event.encode(), event.key().encode(), partition=n % 3
            )
            if n % 7 == 0:
                event = change_event(
                    Changed(tenant_id="t", document_id=f"odd{n}", version=1, deleted=True)
                )
                await outside.put_with_any_header_name(
                    producer, CHANGED, n % 3, event.encode(), b"\xff", b"told"
                )
    async with stage_on_kafka(kafka, database, settings)(steps.run) as bench:
        await bench.wait_drained()
        (letter,) = await bench.letters.all()
    assert sorted(steps.done) == sorted(
        [f"d{n}" for n in range(30) if n != STUCK] + [f"odd{n}" for n in range(0, 30, 7)]
    )
    assert letter.document_id == f"d{STUCK}"


async def test_an_error_in_one_partition_takes_nothing_of_the_others_along(
    kafka: str, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, steps, raised = kafka_settings(partitions=3), Steps(), list[int]()
    steps.gate.set()
    outside, getall = ExternalKafkaClient(kafka, settings.prefix), fetcher.FetchResult.getall

    def damaged(self: Any, max_records: int | None = None) -> Any:
        found = getall(self, max_records)
        if found and found[0].partition == 1 and len(raised) < 3:
            raised.append(found[0].offset)
            raise CorruptRecordException("damaged")
        return found

    monkeypatch.setattr(fetcher.FetchResult, "getall", damaged)
    monkeypatch.setattr(
        "faststream.kafka.subscriber.usecase.anyio.sleep", lambda s: asyncio.sleep(min(s, 0.1))
    )
    await ensure_topics(settings, tuple(kafka.split(",")))
    async with outside.producer() as producer:
        for n in range(30):
            event = change_event(
                Changed(tenant_id="t", document_id=f"d{n}", version=1, deleted=True)
            )
            await outside.put(
                producer, CHANGED, event.encode(), event.key().encode(), partition=n % 3
            )
    async with stage_on_kafka(kafka, database, settings)(steps.run) as bench:
        await wait_until(lambda: len(raised) == 3)
        await bench.wait_drained()
        assert ("broker", None) in bench.health[
            bench.health.index(
                next(told for told in bench.health if "damaged" in (told[1] or ""))
            ) :
        ]
    assert sorted(steps.done) == sorted(f"d{n}" for n in range(30)), (
        "something was lost, or done twice"
    )
