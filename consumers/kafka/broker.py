"""The Kafka broker: one consumer group a stage, read through FastStream, and an idempotent producer.

Publish first, then commit: a crash in between delivers the record again, and every stage is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from faststream.kafka import KafkaBroker as FastStreamBroker

from consumers.kafka.announcements import ANNOUNCED, Announcements
from consumers.kafka.connection import security_of, token_provider, translated
from consumers.kafka.consumer import StageConsumer
from consumers.kafka.producer import CLIENT_ID, PRODUCING, Producer
from consumers.kafka.records import FROM_INTAKE, header_pairs, what_stood
from consumers.kafka.topics import ensure_topics
from consumers.kafka.watch import Watch
from consumers.settle import Settler
from pipeline.errors import OutageError
from pipeline.events import CHANGED, Changed, Event
from pipeline.kafka_settings import KafkaSettings
from pipeline.store.letters import Letter
from pipeline.store.replays import REPLAY_HEADER
from pipeline.supervision import supervised

log = logging.getLogger(__name__)

DRAIN_S = 25.0  # what was begun is finished within it when the process ends
CLOSE_S = 5.0
ACCEPT_S = 15.0  # a change that enters is refused after it, for the time being
TELL_AFTER_S = 3.0  # a stage waits for as long as it takes, and says so after this; less when the process ends
FIRST_TRY_AGAIN_S = 1.0
_SLOWEST_TRY_S = 10.0

Told = Callable[[str, str | None], None]
Lost = Callable[[str, int], None]


def _nothing(stage: str, count: int) -> None:
    """Do without."""


def _client_log() -> logging.Logger:
    """FastStream's words, without its advice."""
    found = logging.getLogger("livedex.kafka")
    found.setLevel(logging.ERROR)
    return found


class KafkaBroker:
    """Publishes to Kafka and runs stages over it.

    Args:
        servers: `host:port` to ask first.
        on_health: told `broker` and the reason when Kafka is away, and with None once it works again.
        on_lost: told a stage, and how many records of it were removed before it had read them.
    """

    def __init__(self, settings: KafkaSettings, servers: tuple[str, ...], on_health: Told, on_lost: Lost = _nothing) -> None:
        self._settings = settings
        self._servers = servers
        self._on_health = on_health
        self._on_lost = on_lost
        self._broker = FastStreamBroker(
            list(servers), client_id=CLIENT_ID, security=security_of(settings), sasl_oauth_token_provider=token_provider(settings),
            allow_auto_create_topics=False, graceful_timeout=CLOSE_S, apply_types=False, logger=_client_log(), log_level=logging.DEBUG,
            **PRODUCING,
        )  # fmt: skip
        self._producer = Producer(self._broker, settings, servers)
        self._announcements = Announcements(self._announce, on_health)
        self.stages: list[StageConsumer] = []
        self._leaving = asyncio.Event()

    def add(self, settler: Settler) -> None:
        """Run a stage once the broker is started."""
        name = settler.stage.name
        self.stages.append(
            StageConsumer(
                self._broker,
                settler,
                self._settings,
                lambda reason: self._on_health("broker", reason),
                lambda count: self._on_lost(name, count),
            )
        )

    async def publish(self, events: Sequence[Event[Changed]]) -> None:
        """Put changes on the first topic, in order; see `pipeline.intake.Publisher`."""
        with translated(f"publish to {CHANGED}"):
            async with asyncio.timeout(ACCEPT_S):
                topic = self._settings.prefix + CHANGED
                sent = [await self._producer.send(topic, event.encode(), event.key().encode(), FROM_INTAKE) for event in events]
                await asyncio.gather(*sent)

    async def put(self, topic: str, event: Event[Any]) -> None:
        """Put an event of a stage on its topic, however long Kafka is away; a second copy would help nobody.

        What others are only told (`livedex.synced`, `livedex.dead`) holds up no document: where its topic is missing or forbidden, it waits.

        Raises:
            OutageError: Kafka does not take it, or is away while the process ends.
        """
        if topic in ANNOUNCED:
            await self._announcements.put(topic, event)
            return
        with translated(f"publish to {topic}"):
            await self._until_held(await self._send(topic, event.encode(), event.key()), topic)

    async def put_again(self, letter: Letter) -> None:
        """Put the exact record of a dead letter on its topic again.

        Raises:
            OutageError: Kafka does not take it.
        """
        key, value = what_stood(letter.payload, letter.place)
        topic = self._settings.prefix + letter.topic
        if key is None and value is None:
            value = b""  # the client refuses to send nothing at all, and either is the same mistake
        with translated(f"publish to {letter.topic}"):
            async with asyncio.timeout(ACCEPT_S):
                await (await self._producer.send(topic, value, key, _headers(letter)))

    async def _announce(self, topic: str, event: Event[Any]) -> None:
        with translated(f"publish to {topic}"):
            await self._producer.check_topic(self._settings.prefix + topic)
            await self._until_held(await self._send(topic, event.encode(), event.key()), topic)

    async def _send(self, topic: str, value: bytes, key: str) -> Any:
        return await self._producer.send(self._settings.prefix + topic, value, key.encode())

    async def _until_held(self, sent: asyncio.Future[Any], topic: str) -> None:
        done, _ = await asyncio.wait([sent], timeout=TELL_AFTER_S)
        if done:
            await sent
            return
        self._on_health("broker", f"publishing to {topic} gets no answer")
        leaving = asyncio.create_task(self._leaving.wait())
        try:
            await asyncio.wait([sent, leaving], return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        if not sent.done():
            sent.cancel()  # the record it came from is read again, and finds everything done but this
            raise OutageError("broker", f"{topic} was not reached before the process ended")
        await sent
        self._on_health("broker", None)

    @asynccontextmanager
    async def running(self, *, patient: bool = True) -> AsyncIterator[None]:
        """Connected, and consuming where stages were added, for as long as the block lasts; then what was begun is finished.

        Args:
            patient: Kafka may be away at the start: it is waited for, and the health says so.

        Raises:
            ConfigError: Kafka refuses the credentials, or topics are missing and may not be made.
            OutageError: Kafka is away, for who is not patient.
        """
        await self._begin(patient)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            looking = Watch(self._broker, self.stages, self._servers, self._on_health, self._clients)
            loops = {f"commit {s.settler.stage.name}": s.committing for s in self.stages} | {
                "announce": self._announcements.run,
                "watch kafka": looking.run,
            }
            tasks = [asyncio.create_task(supervised(loop, name), name=name) for name, loop in loops.items()]
            try:
                yield
            finally:
                self._leaving.set()
                await asyncio.gather(*(stage.drain(DRAIN_S) for stage in self.stages))
                self._producer.ending = True
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                self._announcements.give_up()

    def _clients(self) -> list[Any]:
        """Return the connections of everything that talks to Kafka here."""
        admin = getattr(self._broker.config.admin_client, "_client", None)
        return [client for client in (self._producer.client, admin, *(stage.client for stage in self.stages)) if client is not None]

    async def _begin(self, patient: bool) -> None:
        wait_s, away = FIRST_TRY_AGAIN_S, False
        while True:
            try:
                await ensure_topics(self._settings, self._servers)
                with translated("connect"):
                    await self._broker.start()
                break
            except OutageError as exc:
                if not patient:
                    await self._close()
                    raise
                away = True
                log.warning("Kafka at %s is waited for: %s", ",".join(self._servers), exc)
                self._on_health("broker", f"{','.join(self._servers)}: {exc}")
                await self._close()
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _SLOWEST_TRY_S)
        for stage in self.stages:
            stage.watch_polls()
        if away:
            log.warning("Kafka at %s answers", ",".join(self._servers))
        self._on_health("broker", None)

    async def _close(self) -> None:
        """Disconnect, also where nobody answers."""
        await self._producer.close(CLOSE_S)
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._broker.stop()
        except TimeoutError:
            log.warning("Kafka did not answer the goodbye within %.0f s", CLOSE_S)
            await self._producer.hang_up()


def _headers(letter: Letter) -> list[tuple[str, bytes | None]]:
    """The headers that its record had, and which letter it is."""
    return [*header_pairs(letter.headers), *([(REPLAY_HEADER, letter.letter_id.encode())] if letter.letter_id else [])]
