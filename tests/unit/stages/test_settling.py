"""What counts as an attempt of a record."""

from __future__ import annotations

from typing import Any

from consumers.settle import Record, Settler
from pipeline.errors import NoTurnError, RetryableError
from pipeline.events import Changed, Event, changed
from pipeline.flow import stage
from pipeline.metrics import Metrics
from pipeline.stages.outcome import MAX_ATTEMPTS, Dead, Finished, Forward


class Graves:
    """Remembers the dead letters."""

    def __init__(self) -> None:
        self.dead: list[tuple[Dead, int]] = []

    async def forward(self, topic: str, event: Event[Any]) -> None:
        raise AssertionError

    async def bury(self, record: Record, stage: str, dead: Dead, event: Event[Any] | None, attempts: int) -> None:
        self.dead.append((dead, attempts))


async def test_a_record_that_had_no_turn_has_all_its_attempts_left() -> None:
    errors = [NoTurnError("others first")] * 50 + [RetryableError("away"), NoTurnError("others first")] * MAX_ATTEMPTS

    async def run(event: Event[Any]) -> Forward | Finished:
        raise errors.pop(0)

    graves = Graves()
    settler = Settler(stage("chunk"), run, graves, Metrics(), lambda component, reason: None)
    record = Record("1", "livedex.changed", changed(Changed(tenant_id="t", document_id="d", version=1)).encode())
    waits = []
    while (again := await settler.settle(record)) is not None:
        waits.append(again)
    assert [a.counted for a in waits].count(True) == MAX_ATTEMPTS - 1
    assert [attempts for _, attempts in graves.dead] == [MAX_ATTEMPTS]
