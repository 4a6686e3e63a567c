"""What others are told on topics that nothing of Livedex reads: `livedex.synced` and
`livedex.dead`. No document waits for it.

A dead letter is in the database and a synced version is visible before anybody is told. Where one
of these topics is missing or forbidden, or a partition of it has no leader, what should stand there
waits in this process, in order, and is written once that works; subscribers are told by other means
and miss nothing.
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
# topic, and partition where others of it can be written
TopicPartitionKey: TypeAlias = tuple[str, int | None]
MAX_PENDING = 10_000  # of a place; the oldest are dropped
_AGAIN_EVERY_S = 5.0


class OutputTopicWriter:
    """Writes to these topics, now or later.

    Args:
        write: puts an event on a topic; returns once Kafka holds it.
        on_health: told `topic:NAME` and why it cannot be written, and with None once it can.
        partition_of: returns the partition of a topic that an event goes to, where that is known.
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
        """Write an event, or keep it where its topic cannot be used.

        Raises:
            OutageError: Kafka is away altogether.
            RejectedError: the topic does not take an event of `livedex.dead` of this size.
        """
        for place in ((topic, None), (topic, self._partition_of(topic, event))):
            if place in self._waiting:
                self._keep(place, event)
                return
        try:
            await self._write(topic, event)
        except (TopicUnavailableError, PartialOutageError) as exc:
            if not self._waits_at(topic):
                log.error("%s cannot be written, so what is to be told there waits: %s", topic, exc)
                self._on_health(f"topic:{topic}", str(exc))
            self._keep(
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
                raise  # it is told with less
            log.error("an event is not told on %s: %s", topic, exc)

    def _waits_at(self, topic: str) -> bool:
        return any(place[0] == topic for place in self._waiting)

    def _keep(self, place: TopicPartitionKey, event: Event[Any]) -> None:
        topic, waiting = place[0], self._waiting.setdefault(place, deque())
        waiting.append(event)
        if len(waiting) > MAX_PENDING:
            waiting.popleft()
            self._dropped += 1
            if self._dropped % MAX_PENDING == 1:
                log.error(
                    "%s: more than %d events wait to be told, the oldest are dropped",
                    topic,
                    MAX_PENDING,
                )

    async def run(self) -> None:
        """Write what waits once its topic can be used, for ever."""
        while True:
            await asyncio.sleep(_AGAIN_EVERY_S)
            for place in list(self._waiting):
                await self._write_waiting(place)

    async def _write_waiting(self, place: TopicPartitionKey) -> None:
        topic, waiting = place[0], self._waiting[place]
        try:
            while waiting:
                try:
                    await self._write(topic, waiting[0])
                except RejectedError as exc:
                    log.error("an event is not told on %s: %s", topic, exc)
                waiting.popleft()
        except LivedexError:
            return  # it was said
        except Exception:
            log.exception("what waits for %s could not be written; it is tried again", topic)
            return
        del self._waiting[place]
        if not self._waits_at(topic):
            log.warning("%s can be written again", topic)
            self._on_health(f"topic:{topic}", None)

    def give_up(self) -> None:
        """Say what was never told; the process ends."""
        for (topic, _), waiting in self._waiting.items():
            log.error("%d events were not told on %s before the process ended", len(waiting), topic)
