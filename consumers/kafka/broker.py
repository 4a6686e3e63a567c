"""The Kafka broker: one consumer group a stage, read through FastStream, and an idempotent
producer.

Publish first, then commit: a crash in between delivers the record again, and every stage is
idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from faststream.kafka import KafkaBroker as FastStreamBroker

from livedex.consumers.kafka.cluster_monitor import ClusterMonitor
from livedex.consumers.kafka.compat import (
    WRITER_INTERVAL_S,
    admin_client_of,
    limit_metadata_requests,
)
from livedex.consumers.kafka.connection import (
    faststream_security,
    token_provider,
    translate_kafka_errors,
)
from livedex.consumers.kafka.output_topics import OUTPUT_TOPICS, OutputTopicWriter
from livedex.consumers.kafka.partition_leaders import PartitionLeaders
from livedex.consumers.kafka.producer import CLIENT_ID, PRODUCER_OPTIONS, RenewableProducer
from livedex.consumers.kafka.records import INTAKE_HEADERS, headers_to_kafka, original_key_and_value
from livedex.consumers.kafka.stage_consumer import StageConsumer
from livedex.consumers.kafka.topics import ensure_topics
from livedex.consumers.record_processor import RecordProcessor
from livedex.pipeline.errors import OutageError
from livedex.pipeline.events.event import CHANGED, Changed, Event
from livedex.pipeline.runtime.backoff import KAFKA_RECONNECT
from livedex.pipeline.runtime.supervision import run_supervised
from livedex.pipeline.settings.kafka import KafkaSettings
from livedex.pipeline.store.dead_letter_store import DeadLetter
from livedex.pipeline.store.replays import REPLAY_HEADER

log = logging.getLogger(__name__)

DRAIN_S = 25.0  # for records in processing, when the process ends
CLOSE_S = 5.0
ACCEPT_S = 15.0  # a change that is not acknowledged in time is refused for now
# a stage waits without a limit, and reports it after this
REPORT_AFTER_S = 3.0
_CHECK_LEADERS_EVERY_S = 0.5
_REFRESH_LEADERS_EVERY_S = 1.0

HealthCallback = Callable[[str, str | None], None]
RecordLossCallback = Callable[[str, int], None]


def _nothing(stage: str, count: int) -> None:
    """Ignore lost records."""


def _client_log() -> logging.Logger:
    """Return FastStream's logger, for errors only."""
    found = logging.getLogger("livedex.kafka")
    found.setLevel(logging.ERROR)
    return found


class KafkaBroker:
    """Publishes to Kafka and runs stages over it.

    Args:
        settings: of Kafka.
        servers: bootstrap servers, `host:port`.
        on_health: called with `broker` and the reason while Kafka is unavailable, and with None
            once it works again.
        on_lost: called with a stage and the number of records deleted before they were consumed.

    Attributes:
        stages: consumers of this process.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        servers: tuple[str, ...],
        on_health: HealthCallback,
        on_lost: RecordLossCallback = _nothing,
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._on_health = on_health
        self._on_lost = on_lost
        self._broker = FastStreamBroker(
            list(servers),
            client_id=CLIENT_ID,
            security=faststream_security(settings),
            sasl_oauth_token_provider=token_provider(settings),
            allow_auto_create_topics=False,
            graceful_timeout=CLOSE_S,
            apply_types=False,
            logger=_client_log(),
            log_level=logging.DEBUG,
            **PRODUCER_OPTIONS,
        )
        self._producer = RenewableProducer(self._broker, settings, servers)
        self._leaders = PartitionLeaders(lambda: self._producer.present, on_health)
        self._output_topics = OutputTopicWriter(self._announce, on_health, self._partition_of)
        self.stages: list[StageConsumer] = []
        self._leaving = asyncio.Event()

    def add(self, settler: RecordProcessor) -> None:
        """Add a stage, which runs once the broker is started.

        Args:
            settler: of the stage.
        """
        name = settler.stage.name
        self.stages.append(
            StageConsumer(
                self._broker,
                settler,
                self._settings,
                lambda reason: self._on_health("broker", reason),
                lambda count: self._on_lost(name, count),
                self._leaders.wait_for_leader,
            )
        )

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Publish changes on the first topic, in order, or none of them.

        Args:
            events: of changes.

        Raises:
            PartialOutageError: a partition has no leader.
            OutageError: Kafka does not accept them.
        """
        topic = self._settings.prefix + CHANGED
        keys = [event.key().encode() for event in events]
        for key in keys:
            self._leaders.check(topic, key)
        with translate_kafka_errors(f"publish to {CHANGED}"):
            async with asyncio.timeout(ACCEPT_S):
                sent = [
                    await self._producer.send(topic, event.encode(), key, INTAKE_HEADERS)
                    for event, key in zip(events, keys, strict=True)
                ]
                await self._while_led(asyncio.gather(*sent), topic, keys)

    async def publish_step(self, topic: str, event: Event[Any]) -> None:
        """Publish an event of a stage on its topic; wait while Kafka is unavailable.

        Output topics (`livedex.synced`, `livedex.dead`) delay no document: if such a topic is
        missing or forbidden, their events are queued.

        Args:
            topic: of the next stage.
            event: of the document.

        Raises:
            PartialOutageError: its partition has no leader.
            OutageError: Kafka does not take it, or is away while the process ends.
        """
        if topic in OUTPUT_TOPICS:
            await self._output_topics.put(topic, event)
            return
        await self._put(topic, event)

    async def republish_dead_letter(self, letter: DeadLetter) -> None:
        """Publish the exact record of a dead letter on its topic again.

        Args:
            letter: the dead letter.

        Raises:
            OutageError: Kafka does not take it.
        """
        key, value = original_key_and_value(letter.payload, letter.place)
        topic = self._settings.prefix + letter.topic
        if key is None and value is None:
            value = b""  # the client refuses to send nothing at all, and either is the same mistake
        with translate_kafka_errors(f"publish to {letter.topic}"):
            self._leaders.check(topic, key)
            async with asyncio.timeout(ACCEPT_S):
                await (await self._producer.send(topic, value, key, _headers(letter)))

    async def _announce(self, topic: str, event: Event[Any]) -> None:
        with translate_kafka_errors(f"publish to {topic}"):
            await self._producer.check_topic(self._settings.prefix + topic)
        await self._put(topic, event)

    def _partition_of(self, topic: str, event: Event[Any]) -> int | None:
        return self._leaders.partition_of(self._settings.prefix + topic, event.key().encode())

    async def _put(self, topic: str, event: Event[Any]) -> None:
        name, key = self._settings.prefix + topic, event.key().encode()
        self._leaders.check(name, key)
        with translate_kafka_errors(f"publish to {topic}"):
            sent = await self._producer.send(name, event.encode(), key)
            await self._while_led(
                asyncio.ensure_future(self._wait_acknowledged(sent, topic)), name, [key]
            )

    async def _while_led(
        self, sent: asyncio.Future[Any], topic: str, keys: Sequence[bytes]
    ) -> None:
        """Wait for acknowledgements while all partitions have leaders.

        Raises:
            PartialOutageError: a partition lost its leader. The record may be written nevertheless.
        """
        try:
            while not sent.done():
                await asyncio.wait([sent], timeout=_CHECK_LEADERS_EVERY_S)
                if not sent.done():
                    for key in keys:
                        self._leaders.check(topic, key)
            await sent
        finally:
            if not sent.done():
                sent.cancel()
                await asyncio.gather(sent, return_exceptions=True)

    async def _wait_acknowledged(self, sent: asyncio.Future[Any], topic: str) -> None:
        try:
            done, _ = await asyncio.wait([sent], timeout=REPORT_AFTER_S)
        except asyncio.CancelledError:
            sent.cancel()
            raise
        if done:
            await sent
            return
        self._on_health("broker", f"publishing to {topic} gets no answer")
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait([sent, leaving], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            sent.cancel()
            self._on_health("broker", None)  # a missing leader is reported separately
            raise
        finally:
            leaving.cancel()
        if not sent.done():
            # its record is redelivered, and only this step is repeated
            sent.cancel()
            raise OutageError("broker", f"{topic} was not reached before the process ended")
        await sent
        self._on_health("broker", None)

    @asynccontextmanager
    async def running(self, *, patient: bool = True) -> AsyncIterator[None]:
        """Connect and run the added stages for the block; then finish records in processing.

        Args:
            patient: wait for Kafka at the start if it is unavailable.

        Raises:
            ConfigError: Kafka rejects the credentials, or missing topics may not be created.
            OutageError: Kafka is unavailable, and `patient` is false.
        """
        await self._begin(patient)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            monitor = ClusterMonitor(
                self._broker, self.stages, self._servers, self._on_health, self._clients
            )
            loops = {f"commit {s.settler.stage.name}": s.run_commits for s in self.stages} | {
                "output topics": self._output_topics.run,
                "watch kafka": monitor.run,
                "watch leaders": self._watch_leaders,
            }
            tasks = [
                asyncio.create_task(run_supervised(loop, name), name=name)
                for name, loop in loops.items()
            ]
            try:
                yield
            finally:
                self._leaving.set()
                await asyncio.gather(*(stage.drain(DRAIN_S) for stage in self.stages))
                self._producer.ending = True
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._output_topics.log_unsent()

    async def _watch_leaders(self) -> None:
        """Refresh the leaders of all topics written here, until cancelled."""
        used = [
            CHANGED,
            *(
                topic
                for s in self.stages
                for topic in (s.settler.stage.takes, s.settler.stage.leaves)
                if topic not in OUTPUT_TOPICS
            ),
        ]
        while True:
            self._leaders.refresh([self._settings.prefix + topic for topic in dict.fromkeys(used)])
            await asyncio.sleep(_REFRESH_LEADERS_EVERY_S)

    def _clients(self) -> list[Any]:
        """Return all Kafka clients of the process."""
        admin = admin_client_of(self._broker)
        return [
            client
            for client in (self._producer.client, admin, *(stage.client for stage in self.stages))
            if client is not None
        ]

    async def _begin(self, patient: bool) -> None:
        failures, is_waiting = 0, False
        while True:
            try:
                await ensure_topics(self._settings, self._servers)
                with translate_kafka_errors("connect"):
                    await self._broker.start()
                break
            except OutageError as exc:
                if not patient:
                    await self._close()
                    raise
                is_waiting = True
                log.warning("Kafka at %s is unavailable, waiting: %s", ",".join(self._servers), exc)
                self._on_health("broker", f"{','.join(self._servers)}: {exc}")
                await self._close()
                failures += 1
                await asyncio.sleep(KAFKA_RECONNECT.delay_s(failures))
        if (client := self._producer.client) is not None:
            limit_metadata_requests(client, WRITER_INTERVAL_S)
        for stage in self.stages:
            stage.watch_polls()
        if is_waiting:
            log.warning("Kafka at %s is available", ",".join(self._servers))
        self._on_health("broker", None)

    async def _close(self) -> None:
        """Disconnect, even if Kafka does not answer."""
        await self._producer.close(CLOSE_S)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._broker.stop()
        except TimeoutError:
            log.warning("Kafka did not close the connection within %.0f s", CLOSE_S)
            await self._producer.abort()


def _headers(letter: DeadLetter) -> list[tuple[str, bytes | None]]:
    """Return the original headers and the id of the dead letter."""
    return [
        *headers_to_kafka(letter.headers),
        *([(REPLAY_HEADER, letter.letter_id.encode())] if letter.letter_id else []),
    ]
