"""Build record processors for the stages, and make their outcomes durable."""

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
    """Carries events: PostgreSQL or Kafka. Every method may raise OutageError."""

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Publish changes on the first topic, in order; return once the broker holds them.

        Args:
            events: of changes.
        """
        ...

    async def publish_step(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of a stage on its topic; return once the broker holds it.

        Args:
            topic: of the next stage.
            event: of the document.
        """
        ...

    async def republish_dead_letter(self, letter: DeadLetter) -> None:
        """Publish the exact record of a dead letter on its topic again.

        Args:
            letter: the dead letter.
        """
        ...


class BrokerOutcomeSink:
    """Publishes events of next stages, and writes dead letters.

    Args:
        letters: store of dead letters.
        replays: of dead letters.
        topics_without_reader: nothing is published on these. On the PostgreSQL broker,
            `livedex.synced` and `livedex.dead` have no readers: subscribers get notifications,
            which the transactions themselves write, on every broker.
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
        """Set the broker.

        Args:
            broker: publishes.
        """
        self._broker = broker

    async def forward(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of the next stage.

        Args:
            topic: of the next stage.
            event: of the document.
        """
        if topic in self._skipped:
            return
        assert self._broker is not None
        await self._broker.publish_step(topic, event)

    async def write_dead_letter(
        self,
        record: Record,
        stage: str,
        dead: DeadLettered,
        event: Event[Any] | None,
        attempts: int,
    ) -> None:
        """Write a dead letter; a failed replay updates its dead letter.

        Args:
            record: as delivered.
            stage: that failed.
            dead: reason and detail.
            event: in the record; None if it could not be decoded.
            attempts: of the stage.
        """
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
        except RejectedError as exc:  # the name of the document cannot be stored
            letter = replace(
                letter,
                tenant_id=UNKNOWN_TENANT,
                document_id=None,
                version=None,
                detail=f"{letter.detail}; kept without its document: {exc}",
            )
            await self._letters.bury(letter)
        await self._publish_dead_letter(letter)

    async def end_replay(self, record: Record, event: Event[Any]) -> None:
        """Delete the dead letter that was replayed.

        Args:
            record: of the replay.
            event: in the record.
        """
        await self._replays.complete(
            str(record.headers[REPLAY_HEADER]), record.payload or b"", [event.tenant_id]
        )

    async def _publish_dead_letter(self, letter: DeadLetter) -> None:
        """Publish a stored dead letter: in short form, or not at all, if the topic rejects it."""
        try:
            await self.forward(DEAD, dead_letter_event(letter))
        except RejectedError:
            try:
                await self.forward(DEAD, dead_letter_event(letter, brief=True))
            except RejectedError as exc:
                log.error(
                    "the dead letter %s is stored, but could not be published on %s: %s",
                    letter.letter_id,
                    DEAD,
                    exc,
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
