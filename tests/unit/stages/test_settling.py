"""What counts as an attempt of a record."""

from __future__ import annotations

from typing import Any

from livedex.consumers.record_processor import Record, RecordProcessor
from livedex.pipeline.errors import NotScheduledError, RetryableError, TenantDeletedError
from livedex.pipeline.events.event import Changed, Event, change_event
from livedex.pipeline.flow import stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.stages.outcome import MAX_ATTEMPTS, DeadLettered, Finished, Forward


class Graves:
    """Remembers the dead letters."""

    def __init__(self) -> None:
        self.dead: list[tuple[DeadLettered, int]] = []

    async def forward(self, topic: str, event: Event[Any]) -> None:
        raise AssertionError

    async def write_dead_letter(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        self.dead.append((dead, attempts))


async def test_a_record_that_had_no_turn_has_all_its_attempts_left() -> None:
    errors = [NotScheduledError("others first")] * 50 + [
        RetryableError("away"),
        NotScheduledError("others first"),
    ] * MAX_ATTEMPTS

    async def run(event: Event[Any]) -> Forward | Finished:
        raise errors.pop(0)

    graves = Graves()
    settler = RecordProcessor(
        stage("chunk"), run, graves, Metrics(), lambda component, reason: None
    )
    record = Record(
        "1",
        "livedex.changed",
        change_event(Changed(tenant_id="t", document_id="d", version=1)).encode(),
    )
    waits = []
    while (again := await settler.process(record)) is not None:
        waits.append(again)
    assert [a.counts_as_attempt for a in waits].count(True) == MAX_ATTEMPTS - 1
    assert [attempts for _, attempts in graves.dead] == [MAX_ATTEMPTS]


class Gone(Graves):
    """Where nothing can be kept, since the tenant was deleted meanwhile."""

    async def forward(self, topic: str, event: Event[Any]) -> None:
        raise TenantDeletedError("publish: the tenant was deleted")

    async def write_dead_letter(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        raise TenantDeletedError("dead letter: the tenant was deleted")


async def test_an_outcome_for_a_tenant_deleted_meanwhile_completes_its_record() -> None:
    async def run(event: Event[Any]) -> Forward | Finished:
        return Forward(event)

    settler = RecordProcessor(stage("sync"), run, Gone(), Metrics(), lambda component, reason: None)
    whole = change_event(Changed(tenant_id="t", document_id="d", version=1)).encode()
    assert await settler.process(Record("1", "livedex.embedded", whole)) is None
    assert await settler.process(Record("2", "livedex.embedded", b"{")) is None
