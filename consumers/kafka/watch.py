"""Is Kafka there, and do the consumers get on? Progress counts, not that the process is up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from faststream.kafka import KafkaBroker

from consumers.kafka.consumer import STALLED_S, StageConsumer
from pipeline.errors import LivedexError

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
ANSWER_S = 3.0


async def watch(
    broker: KafkaBroker, stages: Sequence[StageConsumer], servers: Sequence[str], on_health: Callable[[str, str | None], None]
) -> None:
    """Say when Kafka goes and comes back, and begin a consumer anew that has stopped to poll although Kafka is there."""
    away_since: float | None = None
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        if not await broker.ping(ANSWER_S):
            if away_since is None:
                away_since = time.monotonic()
                log.warning("Kafka at %s does not answer", ",".join(servers))
                on_health("broker", f"{','.join(servers)} does not answer")
            continue
        if away_since is not None:
            log.warning("Kafka answers again after %.0f s", time.monotonic() - away_since)
            away_since = None
            on_health("broker", None)
        for stage in stages:
            if time.monotonic() - stage.polled_at > STALLED_S:
                await _begin_anew(stage)


async def _begin_anew(stage: StageConsumer) -> None:
    log.error("%s: has not polled for %.0f s and joins its group anew", stage.settler.stage.name, time.monotonic() - stage.polled_at)
    try:
        await stage.restart()
    except (LivedexError, OSError, RuntimeError) as exc:
        log.error("%s: could not join its group: %s", stage.settler.stage.name, exc)
