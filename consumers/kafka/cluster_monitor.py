"""Monitor Kafka availability and consumer progress."""

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

CHECK_EVERY_S = 2.0
PING_TIMEOUT_S = 3.0


class ClusterMonitor:
    """Monitors Kafka and the consumers of a process.

    Args:
        broker: of FastStream.
        stages: of the process.
        servers: for messages.
        on_health: called with `broker` and the reason while Kafka is unavailable, and with None
            once it works again.
        clients: returns all Kafka clients of the process.
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
        self._unavailable_since: float | None = None

    async def run(self) -> None:
        """Run until cancelled: report outages of Kafka, and restart a consumer that stopped polling
        without one.
        """
        while True:
            await asyncio.sleep(CHECK_EVERY_S)
            try:
                await self._check()
            except Exception:
                log.exception("the check of Kafka failed; it is retried")

    async def _check(self) -> None:
        self._rebootstrap.check(self._clients())
        if not await self._broker.ping(PING_TIMEOUT_S):
            if self._unavailable_since is None:
                self._unavailable_since = time.monotonic()
                log.warning("Kafka at %s does not answer", ",".join(self._servers))
                self._on_health("broker", f"{','.join(self._servers)} does not answer")
            return
        if self._unavailable_since is not None:
            log.warning(
                "Kafka answers again after %.0f s", time.monotonic() - self._unavailable_since
            )
            self._unavailable_since = None
            self._on_health("broker", None)
        for stage in self._stages:
            if time.monotonic() - stage.polled_at > REJOIN_AFTER_S:
                await _restart(stage)
            else:
                await stage.check_partitions()


async def _restart(stage: StageConsumer) -> None:
    log.error(
        "%s: has not polled for %.0f s and rejoins its group",
        stage.settler.stage.name,
        time.monotonic() - stage.polled_at,
    )
    try:
        await stage.restart()
    except (LivedexError, OSError, RuntimeError) as exc:
        log.error("%s: could not join its group: %s", stage.settler.stage.name, exc)
