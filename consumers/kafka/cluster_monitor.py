"""Is Kafka there, and do the consumers get on? Progress counts, not that the process is up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from faststream.kafka import KafkaBroker

from livedex.consumers.kafka.client_rebootstrap import ClientRebootstrap
from livedex.consumers.kafka.stage_consumer import REJOIN_AFTER_S, StageConsumer
from livedex.pipeline.errors import LivedexError

if TYPE_CHECKING:
    from aiokafka.client import AIOKafkaClient

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
ANSWER_S = 3.0


class ClusterMonitor:
    """Looks at Kafka and at what a process reads of it.

    Args:
        clients: of the process, whatever they do.
        on_health: told `broker` and why Kafka is away, and with None once it works again.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        stages: Sequence[StageConsumer],
        servers: Sequence[str],
        on_health: Callable[[str, str | None], None],
        clients: Callable[[], list[AIOKafkaClient]],
    ) -> None:
        self._broker, self._stages, self._servers, self._on_health, self._clients = (
            broker,
            stages,
            servers,
            on_health,
            clients,
        )
        self._rebootstrap = ClientRebootstrap()
        self._away_since: float | None = None

    async def run(self) -> None:
        """Look for ever: say when Kafka goes and comes back, and begin a consumer anew that has
        stopped to poll although Kafka is there.
        """
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self._look()
            except Exception:
                log.exception("Kafka could not be looked at; it is tried again")

    async def _look(self) -> None:
        self._rebootstrap.check(self._clients())
        if not await self._broker.ping(ANSWER_S):
            if self._away_since is None:
                self._away_since = time.monotonic()
                log.warning("Kafka at %s does not answer", ",".join(self._servers))
                self._on_health("broker", f"{','.join(self._servers)} does not answer")
            return
        if self._away_since is not None:
            log.warning("Kafka answers again after %.0f s", time.monotonic() - self._away_since)
            self._away_since = None
            self._on_health("broker", None)
        for stage in self._stages:
            if time.monotonic() - stage.polled_at > REJOIN_AFTER_S:
                await _begin_anew(stage)
            else:
                await stage.look()


async def _begin_anew(stage: StageConsumer) -> None:
    log.error(
        "%s: has not polled for %.0f s and joins its group anew",
        stage.settler.stage.name,
        time.monotonic() - stage.polled_at,
    )
    try:
        await stage.restart()
    except (LivedexError, OSError, RuntimeError) as exc:
        log.error("%s: could not join its group: %s", stage.settler.stage.name, exc)
