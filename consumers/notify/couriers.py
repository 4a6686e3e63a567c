"""A courier for each subscriber that is told at a URL, woken by the transactions that write
something for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from livedex.consumers.notify.delivery_worker import (
    MAX_CONCURRENT,
    DeliveryWorker,
    Subscription,
    component_of,
)
from livedex.consumers.notify.webhook_sender import open_webhook_sender
from livedex.pipeline.errors import LivedexError, TenantDeletedError
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.supervision import run_supervised
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.notification_outbox import NOTIFICATIONS_CHANNEL, NotificationOutbox
from livedex.pipeline.store.postgres.listener import listen
from livedex.pipeline.store.subscriber_store import SubscriberConfig, SubscriberStore

log = logging.getLogger(__name__)

_KEEP_EVERY_S = 5.0


@asynccontextmanager
async def open_delivery_workers(
    subscriptions: Sequence[Subscription],
    database: Database,
    url: str,
    metrics: Metrics,
    tell: Callable[[str, str | None], None],
) -> AsyncIterator[list[DeliveryWorker]]:
    """Store the subscribers in the database, and open a delivery worker for each one with a URL.

    Args:
        subscriptions: all of them; others are removed.
        database: of the notifications.
        url: of the database, for wake-ups.
        metrics: of this process.
        tell: called with a component and its problem, or None.

    Raises:
        OutageError: the database is unavailable.
        RetryableError: the same, for a moment.
    """
    subscribers, outbox = SubscriberStore(database), NotificationOutbox(database)
    for name in await subscribers.configure([each.registration for each in subscriptions]):
        log.warning(
            "notify: nothing more is written for the subscriber %s, which livedex.toml does "
            "not name",
            name,
        )
        tell(component_of(name), None)
    workers: dict[str, DeliveryWorker] = {}
    readers = [each.registration for each in subscriptions if each.route is None]
    async with AsyncExitStack() as stack:
        if readers:
            stack.push_async_callback(
                _ended,
                asyncio.create_task(
                    run_supervised(lambda: _keep(subscribers, readers), "keep subscribers"),
                    name="keep subscribers",
                ),
            )
        for each in subscriptions:
            if each.route is None:
                continue
            sender = await stack.enter_async_context(
                open_webhook_sender(each.route, at_once=MAX_CONCURRENT)
            )
            workers[each.registration.name] = DeliveryWorker(
                each, sender, outbox, subscribers, metrics, tell
            )
        if workers:

            def told(name: str) -> None:
                if name in workers:
                    workers[name].wake()

            def began() -> None:
                for worker in workers.values():
                    worker.wake()

            await stack.enter_async_context(listen(url, NOTIFICATIONS_CHANNEL, told, began))
        yield list(workers.values())


async def _keep(subscribers: SubscriberStore, readers: Sequence[SubscriberConfig]) -> None:
    """Write those again whose tenant was deleted and made again: who reads for itself has no
    courier that does.
    """
    away: str | None = None
    while True:
        await asyncio.sleep(_KEEP_EVERY_S)
        try:
            for each in readers:
                with suppress(TenantDeletedError):  # until it is made again
                    await subscribers.add(each)
            away = None
        except LivedexError as exc:
            if away is None:
                log.warning("notify: whether every subscriber is known is not looked at: %s", exc)
            away = str(exc)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
