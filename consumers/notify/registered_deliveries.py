"""Deliver to subscribers that were created over the API, from a few seconds after that until they
are deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime

from livedex.consumers.notify.delivery_worker import MAX_CONCURRENT, DeliveryWorker, Subscription
from livedex.consumers.notify.webhook_sender import Endpoint, open_webhook_sender
from livedex.pipeline.errors import LivedexError, TenantDeletedError
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.supervision import run_supervised
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.notification_outbox import NotificationOutbox
from livedex.pipeline.store.registered_subscriber_store import (
    RegisteredSubscriber,
    RegisteredSubscriberStore,
)
from livedex.pipeline.store.subscriber_store import SubscriberStore

log = logging.getLogger(__name__)

_SCAN_EVERY_S = 2.0


@dataclass(slots=True)
class _Delivery:
    """A running delivery worker.

    Attributes:
        created_at: of its subscriber.
    """

    created_at: datetime | None
    stop: asyncio.Event
    task: asyncio.Task[None]


class RegisteredDeliveries:
    """Runs a delivery worker for each subscriber that was created over the API and has a URL.

    What becomes of deliveries stands in the list of subscribers; the health of the installation
    does not depend on a tenant's receiver.

    Args:
        database: of the subscribers.
        metrics: of this process.
        endpoint_of: returns the endpoint of a subscriber with a URL.
        skipped: subscribers of livedex.toml, by tenant and name; these win over stored ones.
    """

    name = "registered subscribers"

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        endpoint_of: Callable[[RegisteredSubscriber], Endpoint],
        skipped: Collection[tuple[TenantId, str]] = (),
    ) -> None:
        self._store = RegisteredSubscriberStore(database)
        self._subscribers, self._outbox = SubscriberStore(database), NotificationOutbox(database)
        self._metrics, self._endpoint_of = metrics, endpoint_of
        self._skipped = frozenset(skipped)
        self._running: dict[tuple[TenantId, str], _Delivery] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set.

        Args:
            stop: ends it.
        """
        said: str | None = None
        try:
            while not stop.is_set():
                try:
                    await self._scan()
                    said = None
                except LivedexError as exc:
                    if said is None:
                        log.warning("notify: created subscribers are not read: %s", exc)
                    said = str(exc)
                try:
                    await asyncio.wait_for(stop.wait(), _SCAN_EVERY_S)
                except TimeoutError:
                    continue
        finally:
            await self._end(list(self._running))

    async def _scan(self) -> None:
        """Start and end workers, so that they are those of the stored subscribers."""
        stored = {
            each.key: each for each in await self._store.all() if each.key not in self._skipped
        }
        await self._end(
            [
                key
                for key, running in self._running.items()
                if key not in stored or stored[key].created_at != running.created_at
            ]
        )
        for key, each in stored.items():
            if not each.is_active:
                try:
                    await self._store.activate(each.config)
                except TenantDeletedError:
                    continue
            if each.url is not None and key not in self._running:
                self._start(each)

    def _start(self, subscriber: RegisteredSubscriber) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(
            run_supervised(lambda: self._deliver(subscriber, stop), "deliver to a subscriber"),
            name=f"tell {subscriber.config.name}",
        )
        self._running[subscriber.key] = _Delivery(subscriber.created_at, stop, task)

    async def _deliver(self, subscriber: RegisteredSubscriber, stop: asyncio.Event) -> None:
        endpoint = self._endpoint_of(subscriber)
        async with open_webhook_sender(endpoint, at_once=MAX_CONCURRENT) as sender:
            worker = DeliveryWorker(
                Subscription(subscriber.config, endpoint, subscriber.attempts, is_restored=False),
                sender,
                self._outbox,
                self._subscribers,
                self._metrics,
                lambda component, problem: None,
            )
            await worker.run(stop)

    async def _end(self, keys: Collection[tuple[TenantId, str]]) -> None:
        ended = [self._running.pop(key) for key in keys]
        for each in ended:
            each.stop.set()
        await asyncio.gather(*(each.task for each in ended), return_exceptions=True)
