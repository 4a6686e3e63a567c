"""What others are told on topics that nothing of Livedex reads: `livedex.synced` and `livedex.dead`. No document waits for it.

A dead letter is in the database and a synced version is visible before anybody is told. Where one of these topics is missing or forbidden, what should stand there
waits in this process, in order, and is written once that works; subscribers are told by other means and miss nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from consumers.kafka.connection import TopicUnusableError
from pipeline.errors import LivedexError, RejectedError
from pipeline.events import DEAD, SYNCED, Event

log = logging.getLogger(__name__)

ANNOUNCED = frozenset({SYNCED, DEAD})
MOST_WAITING = 10_000  # of a topic; the oldest are dropped
_AGAIN_EVERY_S = 5.0


class Announcements:
    """Writes to these topics, now or later.

    Args:
        write: puts an event on a topic; returns once Kafka holds it.
        on_health: told `topic:NAME` and why it cannot be written, and with None once it can.
    """

    def __init__(self, write: Callable[[str, Event[Any]], Awaitable[None]], on_health: Callable[[str, str | None], None]) -> None:
        self._write, self._on_health = write, on_health
        self._waiting: dict[str, deque[Event[Any]]] = {}
        self._dropped = 0

    async def put(self, topic: str, event: Event[Any]) -> None:
        """Write an event, or keep it where its topic cannot be used.

        Raises:
            OutageError: Kafka is away altogether.
            RejectedError: the topic does not take an event of `livedex.dead` of this size.
        """
        if topic in self._waiting:
            self._keep(topic, event)
            return
        try:
            await self._write(topic, event)
        except TopicUnusableError as exc:
            log.error("%s cannot be written, so what is to be told there waits: %s", topic, exc)
            self._on_health(f"topic:{topic}", str(exc))
            self._keep(topic, event)
        except RejectedError as exc:
            if topic == DEAD:
                raise  # it is told with less
            log.error("an event is not told on %s: %s", topic, exc)

    def _keep(self, topic: str, event: Event[Any]) -> None:
        waiting = self._waiting.setdefault(topic, deque())
        waiting.append(event)
        if len(waiting) > MOST_WAITING:
            waiting.popleft()
            self._dropped += 1
            if self._dropped % MOST_WAITING == 1:
                log.error("%s: more than %d events wait to be told, the oldest are dropped", topic, MOST_WAITING)

    async def run(self) -> None:
        """Write what waits once its topic can be used, for ever."""
        while True:
            await asyncio.sleep(_AGAIN_EVERY_S)
            for topic in list(self._waiting):
                await self._write_waiting(topic)

    async def _write_waiting(self, topic: str) -> None:
        waiting = self._waiting[topic]
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
        del self._waiting[topic]
        log.warning("%s can be written again", topic)
        self._on_health(f"topic:{topic}", None)

    def give_up(self) -> None:
        """Say what was never told; the process ends."""
        for topic, waiting in self._waiting.items():
            log.error("%d events were not told on %s before the process ended", len(waiting), topic)
