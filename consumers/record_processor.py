"""From a record to its durable outcome: the loop around a stage, the same for every broker.

Invariants: a record is given back as done only after its outcome is durable (the next event is
published, or the dead letter is written); an outage pauses the stage and blames no record; a
cancellation is no outcome.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, assert_never

from livedex.consumers.replacement import supersedes
from livedex.pipeline.errors import LivedexError, RejectedError
from livedex.pipeline.events.decoder import decode_event
from livedex.pipeline.events.event import Changed, Event, HeaderValue
from livedex.pipeline.flow import Stage
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.tenant_shares import TenantShares, metered
from livedex.pipeline.stages.outcome import (
    DeadLettered,
    Finished,
    Forward,
    Outcome,
    Pause,
    Retry,
    outcome_of,
)
from livedex.pipeline.store.replays import REPLAY_HEADER

log = logging.getLogger(__name__)

_URL_FIELD = b'"url"'
_READ_HERE_BYTES = 262_144  # larger ones are read in a thread, so that the event loop has its turns


@dataclass(frozen=True, slots=True)
class Record:
    """What a broker delivered.

    Attributes:
        id: unique on this broker, the same at every delivery.
        payload: the exact bytes; None where the record has a key and no value.
        place: where it stood: row, or partition and offset, and key.
        at: when the broker took it, where it says.
    """

    id: str
    topic: str
    payload: bytes | None
    place: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    at: datetime | None = None


class OutcomeSink(Protocol):
    """Where outcomes go."""

    async def forward(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of the next stage; returns once the broker holds it."""
        ...

    async def bury(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        """Write a dead letter; the same record again changes nothing.

        A record that a letter was sent through again as makes that letter anew.
        """
        ...

    async def end_replay(self, record: Record, event: Event[Any]) -> None:
        """Take away the letter that a record was sent through again of, now that it has had its
        effect.
        """
        ...


class StoppingError(Exception):
    """The process is stopping: the record goes back untouched."""


StageFunction = Callable[[Event[Any]], Awaitable[Forward | Finished]]
EventDecoder = Callable[[Record, Stage], Event[Any]]


def read_event(record: Record, stage: Stage) -> Event[Any]:
    """The event in a record.

    Raises:
        RejectedError: there is none.
    """
    return decode_event(record.payload, stage.payload, record.at)


class RecordProcessor:
    """Runs one stage over records.

    Args:
        run: the stage, with its surroundings bound.
        on_pause: told the component and the reason when a dependency is away, and with None once it
            works again.
        shares: of tenants in the time of this process; None: of this stage alone.

    Attributes:
        read: finds the event in a record; a broker may know more of its records.
    """

    def __init__(
        self,
        stage: Stage,
        run: StageFunction,
        outlet: OutcomeSink,
        metrics: Metrics,
        on_pause: Callable[[str, str | None], None],
        shares: TenantShares | None = None,
    ) -> None:
        self.read: EventDecoder = read_event
        self._shares = shares or TenantShares()
        self.stage = stage
        self._run = run
        self._outlet = outlet
        self._metrics = metrics
        self._on_pause = on_pause
        self._attempts: dict[str, int] = {}
        self._stopping = asyncio.Event()
        self._paused: dict[str, str] = {}

    def stop(self) -> None:
        """Begin nothing new; what waits for a dependency goes back."""
        self._stopping.set()

    def is_replaced(self, record: Record, newer: Record) -> bool:
        """Return whether a newer record of the same key makes this one pointless, whatever becomes
        of the newer one.
        """
        if _URL_FIELD not in (record.payload or b"") or _URL_FIELD not in (newer.payload or b""):
            return False
        try:
            older_data, newer_data = (
                self.read(record, self.stage).data,
                self.read(newer, self.stage).data,
            )
        except RejectedError:
            return False  # it becomes a dead letter in its turn
        return (
            isinstance(older_data, Changed)
            and isinstance(newer_data, Changed)
            and supersedes(newer_data, older_data)
        )

    def end_replaced(self, record: Record) -> None:
        """Count a record as superseded, and forget its attempts."""
        self._attempts.pop(record.id, None)
        self._metrics.events_total.labels(self.stage.name, "superseded").inc()

    async def settle(self, record: Record) -> Retry | None:
        """Bring a record to its outcome, waiting through outages.

        Returns:
            None when the outcome is durable, or when and why to deliver it again.

        Raises:
            StoppingError: the process stops; nothing was decided.
        """
        pauses = 0
        while True:
            if self._stopping.is_set():
                raise StoppingError
            attempt = self._attempts.get(record.id, 0) + 1
            outcome = await self._once(record, attempt, pauses)
            if not isinstance(outcome, Pause):
                break
            pauses += 1
            self._pause(outcome)
            await self._wait(outcome.after_s)
        if pauses:
            self._resume()
        if isinstance(outcome, Retry):
            if not outcome.counted:
                return outcome
            self._attempts[record.id] = attempt
            self._metrics.events_total.labels(self.stage.name, "again").inc()
            log.warning("%s: %s, again in %.1f s", self.stage.name, outcome.detail, outcome.after_s)
            return outcome
        self._attempts.pop(record.id, None)
        return None

    async def _once(self, record: Record, attempt: int, pauses: int) -> Outcome:
        event: Event[Any] | None = None
        try:
            if len(record.payload or b"") > _READ_HERE_BYTES:
                event = await asyncio.to_thread(self.read, record, self.stage)
            else:
                event = self.read(record, self.stage)
            begin = time.monotonic()
            outcome: Outcome = await metered(self._run_in_turn(event))
            self._metrics.stage_seconds.labels(self.stage.name).observe(time.monotonic() - begin)
        except Exception as exc:  # outcome_of decides; nothing is swallowed
            outcome = outcome_of(exc, attempt, pauses)
            if not isinstance(exc, LivedexError):
                log.exception("%s: attempt %d failed", self.stage.name, attempt)
        try:
            await self._carry_out(record, outcome, event, attempt)
        except Exception as exc:  # as above
            if not isinstance(exc, LivedexError):
                log.exception("%s: the outcome could not be kept", self.stage.name)
            failed = outcome_of(exc, attempt, pauses)
            if isinstance(failed, Pause | Finished) or (
                isinstance(failed, Retry) and not failed.counted
            ):  # away, or of a tenant that is no more
                return failed
            return Retry(
                1.0, f"the outcome of {record.id} could not be kept: {type(exc).__name__}: {exc}"
            )
        return outcome

    async def _run_in_turn(self, event: Event[Any]) -> Forward | Finished:
        await self._shares.admit(event.tenant_id, "ingest")
        return await self._run(event)

    async def _carry_out(
        self, record: Record, outcome: Outcome, event: Event[Any] | None, attempt: int
    ) -> None:
        count = self._metrics.events_total.labels
        if isinstance(outcome, Forward):
            await self._outlet.forward(self.stage.leaves, outcome.event)
            count(self.stage.name, "done").inc()
            if self.stage.name == "sync":
                self._metrics.freshness_seconds.observe(
                    (outcome.event.time - outcome.event.accepted).total_seconds()
                )
        elif isinstance(outcome, Finished):
            count(self.stage.name, "superseded" if outcome.superseded else "done").inc()
        elif isinstance(outcome, DeadLettered):
            await self._outlet.bury(record, self.stage.name, outcome, event, attempt)
            count(self.stage.name, "dead").inc()
            log.error("%s: dead letter (%s): %s", self.stage.name, outcome.reason, outcome.detail)
        elif isinstance(outcome, Retry | Pause):
            return
        else:
            assert_never(outcome)
        if (
            isinstance(outcome, Forward | Finished)
            and event is not None
            and REPLAY_HEADER in record.headers
        ):
            await self._outlet.end_replay(record, event)

    def _pause(self, pause: Pause) -> None:
        if pause.component not in self._paused:
            log.warning("%s: waits for the %s: %s", self.stage.name, pause.component, pause.detail)
        self._paused[pause.component] = pause.detail
        self._on_pause(pause.component, pause.cause)

    def _resume(self) -> None:
        for component in self._paused:
            log.warning("%s: the %s works again", self.stage.name, component)
            self._on_pause(component, None)
        self._paused.clear()

    async def _wait(self, after_s: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), min(after_s, 15.0))
        except TimeoutError:
            return
