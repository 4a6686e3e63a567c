"""Write to the output topics `livedex.synced` and `livedex.dead` without delaying documents.

A dead letter is stored and a synced version is visible before its event is written. If such a topic
is missing or forbidden, or a partition has no leader, its events wait in this process, in order,
and are written later. Webhook notifications do not depend on these topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from livedex.consumers.kafka.connection import TopicUnavailableError
from livedex.pipeline.errors import LivedexError, PartialOutageError, RejectedError
from livedex.pipeline.events.event import DEAD, SYNCED, Event

log = logging.getLogger(__name__)

OUTPUT_TOPICS = frozenset({SYNCED, DEAD})
# topic, and partition if only that partition cannot be written
TopicPartitionKey: TypeAlias = tuple[str, int | None]
MAX_PENDING = 10_000  # events of a topic or partition; the oldest are dropped
_RETRY_EVERY_S = 5.0


class OutputTopicWriter:
    """Writes events to the output topics, now or later.

    Args:
        write: publishes an event; returns once Kafka holds it.
        on_health: called with `topic:NAME` and why it cannot be written, and with None once it can.
        partition_of: returns the partition of an event, if known.
    """

    def __init__(
        self,
        write: Callable[[str, Event[Any]], Awaitable[None]],
        on_health: Callable[[str, str | None], None],
        partition_of: Callable[[str, Event[Any]], int | None] = lambda topic, event: None,
    ) -> None:
        self._write, self._on_health, self._partition_of = write, on_health, partition_of
        self._waiting: dict[TopicPartitionKey, deque[Event[Any]]] = {}
        self._dropped = 0

    async def put(self, topic: str, event: Event[Any]) -> None:
        """Write an event, or queue it if its topic cannot be written.

        Args:
            topic: an output topic.
            event: of the document.

        Raises:
            OutageError: Kafka is unavailable.
            RejectedError: an event of `livedex.dead` is too large for the topic.
        """
        for place in ((topic, None), (topic, self._partition_of(topic, event))):
            if place in self._waiting:
                self._queue(place, event)
                return
        try:
            await self._write(topic, event)
        except (TopicUnavailableError, PartialOutageError) as exc:
            if not self._has_queued(topic):
                log.error("%s cannot be written, its events are queued: %s", topic, exc)
                self._on_health(f"topic:{topic}", str(exc))
            self._queue(
                (
                    topic,
                    self._partition_of(topic, event)
                    if isinstance(exc, PartialOutageError)
                    else None,
                ),
                event,
            )
        except RejectedError as exc:
            if topic == DEAD:
                raise  # the caller sends a short form
            log.error("an event could not be written to %s: %s", topic, exc)

    def _has_queued(self, topic: str) -> bool:
        return any(place[0] == topic for place in self._waiting)

    def _queue(self, place: TopicPartitionKey, event: Event[Any]) -> None:
        topic, waiting = place[0], self._waiting.setdefault(place, deque())
        waiting.append(event)
        if len(waiting) > MAX_PENDING:
            waiting.popleft()
            self._dropped += 1
            if self._dropped % MAX_PENDING == 1:
                log.error(
                    "%s: more than %d events are queued, the oldest are dropped",
                    topic,
                    MAX_PENDING,
                )

    async def run(self) -> None:
        """Retry queued events, until cancelled."""
        while True:
            await asyncio.sleep(_RETRY_EVERY_S)
            for place in list(self._waiting):
                await self._write_waiting(place)

    async def _write_waiting(self, place: TopicPartitionKey) -> None:
        topic, waiting = place[0], self._waiting[place]
        try:
            while waiting:
                try:
                    await self._write(topic, waiting[0])
                except RejectedError as exc:
                    log.error("an event could not be written to %s: %s", topic, exc)
                waiting.popleft()
        except LivedexError:
            return  # reported when the first event was queued
        except Exception:
            log.exception("queued events could not be written to %s; retried", topic)
            return
        del self._waiting[place]
        if not self._has_queued(topic):
            log.warning("%s can be written again", topic)
            self._on_health(f"topic:{topic}", None)

    def log_unsent(self) -> None:
        """Log the events that are lost when the process ends."""
        for (topic, _), waiting in self._waiting.items():
            log.error(
                "%d events were not written to %s before the process ended", len(waiting), topic
            )
