"""Process records to a durable outcome, for any broker.

Invariants: a record is acknowledged only after its outcome is durable (the next event is published,
or the dead letter is written); an outage pauses the stage and is no record's fault; cancelled
records are redelivered unchanged.
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
from livedex.pipeline.events.event import INLINE_LIMIT_BYTES, Changed, Event, HeaderValue
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


@dataclass(frozen=True, slots=True)
class Record:
    """A record as a broker delivered it.

    Attributes:
        id: unique on this broker, the same at every delivery.
        topic: without a prefix.
        payload: the exact bytes; None if the record has a key and no value.
        place: row, or partition, offset and key.
        headers: by name.
        at: when the broker took it, if known.
    """

    id: str
    topic: str
    payload: bytes | None
    place: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, HeaderValue] = field(default_factory=dict)
    at: datetime | None = None


class OutcomeSink(Protocol):
    """Makes outcomes durable."""

    async def forward(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of the next stage; return once the broker holds it.

        Args:
            topic: of the next stage.
            event: of the document.
        """
        ...

    async def write_dead_letter(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        """Write a dead letter; the same record again changes nothing.

        The record of a replayed dead letter replaces that dead letter.

        Args:
            record: as delivered.
            stage: that failed.
            dead: reason and detail.
            event: in the record; None if it could not be decoded.
            attempts: of the stage.
        """
        ...

    async def end_replay(self, record: Record, event: Event[Any]) -> None:
        """Delete the dead letter that was replayed, now that the replay succeeded.

        Args:
            record: of the replay.
            event: in the record.
        """
        ...


class StoppingError(Exception):
    """The process is stopping: the record is redelivered unchanged."""


StageFunction = Callable[[Event[Any]], Awaitable[Forward | Finished]]
EventDecoder = Callable[[Record, Stage], Event[Any]]


def read_event(record: Record, stage: Stage) -> Event[Any]:
    """Return the event in a record.

    Args:
        record: as delivered.
        stage: that takes it.

    Raises:
        RejectedError: the record contains no valid event.
    """
    return decode_event(record.payload, stage.payload, record.at)


class RecordProcessor:
    """Runs one stage over records.

    Args:
        stage: of the flow.
        run: the stage's function.
        sink: makes outcomes durable.
        metrics: of this process.
        on_pause: called with a component and the reason while it is unavailable, and with None once
            it works again.
        shares: of tenants in the time of this process; None: of this stage alone.

    Attributes:
        stage: of the flow.
        read: decodes a record; a broker may replace it.
    """

    def __init__(
        self,
        stage: Stage,
        run: StageFunction,
        sink: OutcomeSink,
        metrics: Metrics,
        on_pause: Callable[[str, str | None], None],
        shares: TenantShares | None = None,
    ) -> None:
        self.read: EventDecoder = read_event
        self._shares = shares or TenantShares()
        self.stage = stage
        self._run = run
        self._sink = sink
        self._metrics = metrics
        self._on_pause = on_pause
        self._attempts: dict[str, int] = {}
        self._stopping = asyncio.Event()
        self._paused: dict[str, str] = {}

    def stop(self) -> None:
        """Start no new record; records that wait for a dependency are redelivered."""
        self._stopping.set()

    def is_superseded(self, record: Record, newer: Record) -> bool:
        """Return whether a record can be skipped for a newer one, whatever the newer one's outcome.

        Args:
            record: the older one.
            newer: with the same key.
        """
        if _URL_FIELD not in (record.payload or b"") or _URL_FIELD not in (newer.payload or b""):
            return False
        try:
            older_data, newer_data = (
                self.read(record, self.stage).data,
                self.read(newer, self.stage).data,
            )
        except RejectedError:
            return False  # processing it writes a dead letter
        return (
            isinstance(older_data, Changed)
            and isinstance(newer_data, Changed)
            and supersedes(newer_data, older_data)
        )

    def record_superseded(self, record: Record) -> None:
        """Count a record as superseded, and forget its attempts.

        Args:
            record: that is skipped.
        """
        self._attempts.pop(record.id, None)
        self._metrics.events_total.labels(self.stage.name, "superseded").inc()

    async def process(self, record: Record) -> Retry | None:
        """Process a record, through outages of dependencies.

        Args:
            record: as delivered.

        Returns:
            None once the outcome is durable; otherwise when and why to deliver it again.

        Raises:
            StoppingError: the process is stopping, and the record has no outcome.
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
            if not outcome.counts_as_attempt:
                return outcome
            self._attempts[record.id] = attempt
            self._metrics.events_total.labels(self.stage.name, "again").inc()
            log.warning(
                "%s: %s; retried in %.1f s", self.stage.name, outcome.detail, outcome.after_s
            )
            return outcome
        self._attempts.pop(record.id, None)
        return None

    async def _once(self, record: Record, attempt: int, pauses: int) -> Outcome:
        event: Event[Any] | None = None
        try:
            if len(record.payload or b"") > INLINE_LIMIT_BYTES:
                event = await asyncio.to_thread(self.read, record, self.stage)
            else:
                event = self.read(record, self.stage)
            begin = time.monotonic()
            outcome: Outcome = await metered(self._run_admitted(event))
            self._metrics.stage_seconds.labels(self.stage.name).observe(time.monotonic() - begin)
        except Exception as exc:  # outcome_of decides
            outcome = outcome_of(exc, attempt, pauses)
            if not isinstance(exc, LivedexError):
                log.exception("%s: attempt %d failed", self.stage.name, attempt)
        try:
            await self._apply(record, outcome, event, attempt)
        except Exception as exc:  # as above
            if not isinstance(exc, LivedexError):
                log.exception("%s: the outcome could not be stored", self.stage.name)
            failed = outcome_of(exc, attempt, pauses)
            if isinstance(failed, Pause | Finished) or (
                isinstance(failed, Retry) and not failed.counts_as_attempt
            ):  # away, or of a tenant that is no more
                return failed
            return Retry(
                1.0, f"the outcome of {record.id} could not be stored: {type(exc).__name__}: {exc}"
            )
        return outcome

    async def _run_admitted(self, event: Event[Any]) -> Forward | Finished:
        await self._shares.admit(event.tenant_id, "ingest")
        return await self._run(event)

    async def _apply(
        self, record: Record, outcome: Outcome, event: Event[Any] | None, attempt: int
    ) -> None:
        count = self._metrics.events_total.labels
        if isinstance(outcome, Forward):
            await self._sink.forward(self.stage.leaves, outcome.event)
            count(self.stage.name, "done").inc()
            if self.stage.name == "sync":
                self._metrics.freshness_seconds.observe(
                    (outcome.event.time - outcome.event.accepted).total_seconds()
                )
        elif isinstance(outcome, Finished):
            count(self.stage.name, "superseded" if outcome.superseded else "done").inc()
        elif isinstance(outcome, DeadLettered):
            await self._sink.write_dead_letter(record, self.stage.name, outcome, event, attempt)
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
            await self._sink.end_replay(record, event)

    def _pause(self, pause: Pause) -> None:
        if pause.component not in self._paused:
            log.warning(
                "%s: paused, the %s is unavailable: %s",
                self.stage.name,
                pause.component,
                pause.detail,
            )
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
