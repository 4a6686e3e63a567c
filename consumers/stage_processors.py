"""The stages with their surroundings bound, ready for a broker."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

from livedex.consumers.chunk import open_chunk_processor
from livedex.consumers.embed import open_embed_processor
from livedex.consumers.record_processor import Record, RecordProcessor
from livedex.consumers.stage_dependencies import StageDependencies
from livedex.consumers.sync import sync_processor
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.events.event import DEAD, SYNCED, Changed, Event
from livedex.pipeline.flow import StageName
from livedex.pipeline.names import UNKNOWN_TENANT
from livedex.pipeline.stages.outcome import DeadLettered
from livedex.pipeline.store.dead_letter_store import (
    DeadLetter,
    DeadLetterStore,
    dead_letter_event,
    dead_letter_id,
)
from livedex.pipeline.store.replays import REPLAY_HEADER, DeadLetterReplays

log = logging.getLogger(__name__)


class Broker(Protocol):
    """What carries the events: PostgreSQL or Kafka. Every method may raise OutageError."""

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Put changes on the first topic, in order; returns once the broker holds them."""
        ...

    async def put(self, topic: str, event: Event[Any]) -> None:
        """Put an event of a stage on its topic; returns once the broker holds it."""
        ...

    async def put_again(self, letter: DeadLetter) -> None:
        """Put the exact record of a dead letter on its topic again."""
        ...


class BrokerOutcomeSink:
    """Outcomes to the broker, dead letters to the table, and from there told to the broker.

    Args:
        replays: what letters are sent through again.
        topics_without_reader: nothing is put on these. On the PostgreSQL broker nobody could read
            `livedex.synced` and `livedex.dead`:
            who wants to know is a subscriber, for whom the transactions themselves write a notice,
            on every broker.
    """

    def __init__(
        self,
        letters: DeadLetterStore,
        replays: DeadLetterReplays,
        *,
        topics_without_reader: frozenset[str] = frozenset({SYNCED, DEAD}),
    ) -> None:
        self._letters = letters
        self._replays = replays
        self._skipped = topics_without_reader
        self._broker: Broker | None = None

    def connect(self, broker: Broker) -> None:
        """Say which broker."""
        self._broker = broker

    async def forward(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of the next stage."""
        if topic in self._skipped:
            return
        assert self._broker is not None
        await self._broker.put(topic, event)

    async def write_dead_letter(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        """Write a dead letter; of a letter that failed again, the same one."""
        payload = record.payload or b""
        headers = {name: value for name, value in record.headers.items() if name != REPLAY_HEADER}
        letter = DeadLetter(
            letter_id=dead_letter_id(record.id, payload),
            tenant_id=event.tenant_id if event else UNKNOWN_TENANT,
            stage=stage,
            document_id=event.document_id if event else None,
            version=event.data.version if event else None,
            reason=dead.reason,
            detail=dead.detail,
            attempts=attempts,
            topic=record.topic,
            place=record.place,
            headers=headers,
            payload=payload,
        )
        if REPLAY_HEADER in record.headers:
            letter = await self._replays.merge_failure(str(record.headers[REPLAY_HEADER]), letter)
        try:
            await self._letters.bury(letter, event)
        except RejectedError as exc:  # no row can hold what its document is called
            letter = replace(
                letter,
                tenant_id=UNKNOWN_TENANT,
                document_id=None,
                version=None,
                detail=f"{letter.detail}; kept without its document: {exc}",
            )
            await self._letters.bury(letter)
        await self._tell(letter)

    async def end_replay(self, record: Record, event: Event[Any]) -> None:
        """Take away the letter that a record was sent through again of."""
        await self._replays.complete(
            str(record.headers[REPLAY_HEADER]), record.payload or b"", [event.tenant_id]
        )

    async def _tell(self, letter: DeadLetter) -> None:
        """Tell of a letter, which is kept by now: with less, or not at all, where the topic does
        not take it.
        """
        try:
            await self.forward(DEAD, dead_letter_event(letter))
        except RejectedError:
            try:
                await self.forward(DEAD, dead_letter_event(letter, brief=True))
            except RejectedError as exc:
                log.error(
                    "the letter %s is kept, but not told on %s: %s", letter.letter_id, DEAD, exc
                )


@asynccontextmanager
async def open_stage_processors(
    stages: Sequence[StageName], dependencies: StageDependencies
) -> AsyncIterator[list[RecordProcessor]]:
    """Open a record processor for each stage; everything they opened is closed at the end of the
    block.

    Args:
        stages: of this process.
        dependencies: of the stages.
    """
    async with AsyncExitStack() as stack:
        processors = list[RecordProcessor]()
        for name in stages:
            if name == "chunk":
                opened = open_chunk_processor(dependencies)
                processors.append(await stack.enter_async_context(opened))
            elif name == "embed":
                opened = open_embed_processor(dependencies)
                processors.append(await stack.enter_async_context(opened))
            else:
                processors.append(sync_processor(dependencies))
        yield processors
