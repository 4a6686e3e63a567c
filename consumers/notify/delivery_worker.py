"""Deliver pending notifications to one subscriber.

Invariants: a notification is removed only after it was delivered or became a dead letter; for each
document only the oldest one is in flight; nothing is sent while the subscriber is paused or
stopped, whichever process found that out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import assert_never

from livedex.consumers.notify.schedule import retry_delay_s
from livedex.consumers.notify.webhook_sender import (
    Delivered,
    DeliveryFailed,
    DeliveryResult,
    Endpoint,
    Unsubscribed,
    WebhookSender,
)
from livedex.pipeline.errors import LivedexError, TenantDeletedError
from livedex.pipeline.events.notifications import NOTIFY_STAGE, Notification
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.store.notification_outbox import DeliveryBatch, NotificationOutbox
from livedex.pipeline.store.subscriber_store import SubscriberConfig, SubscriberStore

log = logging.getLogger(__name__)

MAX_CONCURRENT = 8
_LEASE_BELOW = MAX_CONCURRENT // 2  # several are leased together
LEASE_S = 60.0  # longer than an attempt and the writes after it
_POLL_S = 1.0
_UNAVAILABLE_POLL_S = 5.0
_STORE_RETRY_S = 0.5
_DRAIN_S = 5.0
_EXPIRE_EVERY_S = 60.0
_MAX_EXPIRED = 200


def component_of(subscriber: str) -> str:
    """Return the component name of a subscriber in the health.

    Args:
        subscriber: its name.
    """
    return f"subscriber:{subscriber}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscriber and its delivery options.

    Attributes:
        registration: of the subscriber.
        route: its endpoint; None: it reads its notifications itself.
        attempts: for one notification.
        is_restored: its row is written again if it is deleted with its tenant.
    """

    registration: SubscriberConfig
    route: Endpoint | None = None
    attempts: int = 10
    is_restored: bool = True


class DeliveryWorker:
    """Delivers notifications to one subscriber; several may run, in any number of processes.

    Args:
        subscription: of the subscriber.
        sender: sends one notification.
        outbox: of pending notifications.
        subscribers: their state.
        metrics: of this process.
        tell: called with the component and its problem, or None.
        wait: returns the seconds until the next attempt, by the number of failed ones.
    """

    def __init__(
        self,
        subscription: Subscription,
        sender: WebhookSender,
        outbox: NotificationOutbox,
        subscribers: SubscriberStore,
        metrics: Metrics,
        tell: Callable[[str, str | None], None],
        *,
        wait: Callable[[int], float] = retry_delay_s,
    ) -> None:
        self._subscriber, self._max_attempts = subscription.registration, subscription.attempts
        self._is_restored = subscription.is_restored
        self._sender, self._outbox, self._subscribers = sender, outbox, subscribers
        self._metrics, self._tell, self._wait = metrics, tell, wait
        self._delivered: MicroBatcher[Notification, None] = MicroBatcher(self._remove)
        self._woken = asyncio.Event()
        self._works = True
        self._said: str | None = ""
        self._expire_at = time.monotonic()

    @property
    def name(self) -> str:
        """Return the name of the subscriber."""
        return self._subscriber.name

    def wake(self) -> None:
        """Look for pending notifications now."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; deliveries in flight then end within `_DRAIN_S`.

        Args:
            stop: ends the worker.
        """
        in_flight: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            in_flight.discard(task)
            if len(in_flight) <= _LEASE_BELOW:
                self.wake()

        try:
            while not stop.is_set():
                self._woken.clear()
                pause_s = _POLL_S
                if len(in_flight) <= _LEASE_BELOW:
                    look = await self._lease_batch(len(in_flight))
                    pause_s = (
                        _UNAVAILABLE_POLL_S
                        if look is None
                        else max(_POLL_S, min(look.pause_s, _UNAVAILABLE_POLL_S))
                    )
                    for notice in look.notices if look is not None else ():
                        task = asyncio.create_task(self._deliver(notice), name=f"tell {self.name}")
                        in_flight.add(task)
                        task.add_done_callback(ended)
                await self._sleep(stop, pause_s)
        finally:
            if in_flight:
                await asyncio.wait(in_flight, timeout=_DRAIN_S)
            left = list(in_flight)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _sleep(self, stop: asyncio.Event, seconds: float) -> None:
        """Wait until woken, until `stop` is set, or for so many seconds."""
        waits = [asyncio.ensure_future(self._woken.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _lease_batch(self, under_way: int) -> DeliveryBatch | None:
        """Lease the notifications that are due; None if the database does not answer."""
        s = self._subscriber
        try:
            if time.monotonic() >= self._expire_at:
                self._expire_at = time.monotonic() + _EXPIRE_EVERY_S
                await self._expire()
            look = await self._outbox.take(
                s.tenant_id, s.name, at_once=MAX_CONCURRENT, under_way=under_way, lease_s=LEASE_S
            )
            if look is None and self._is_restored:  # deleted with its tenant
                await self._subscribers.add(s)
        except TenantDeletedError:
            self._say("its tenant was deleted: remove it from livedex.toml")
            return None
        except LivedexError as exc:
            log.warning("notify: subscriber %s waits: %s", s.name, exc)
            return None
        if look is not None:
            self._works = not (look.failures or look.refusals)
            self._say(_problem(look))
        return look

    async def _deliver(self, notice: Notification) -> None:
        begin = time.monotonic()
        answer = await self._sender.send(notice)
        self._metrics.stage_seconds.labels(NOTIFY_STAGE).observe(time.monotonic() - begin)
        while True:
            try:
                outcome = await self._store_result(notice, answer)
            except LivedexError as exc:
                log.warning(
                    "notify: the result of a delivery to %s is not stored yet: %s", self.name, exc
                )
                if (
                    isinstance(exc, TenantDeletedError)
                    or time.monotonic() > begin + LEASE_S - _STORE_RETRY_S
                ):
                    return  # its lease expires, and it is sent again with the same id
                await asyncio.sleep(_STORE_RETRY_S)
            else:
                self._metrics.events_total.labels(NOTIFY_STAGE, outcome).inc()
                return

    async def _store_result(self, notice: Notification, answer: DeliveryResult) -> str:
        """Store the result of a delivery; return its outcome for the metrics."""
        s = self._subscriber
        if isinstance(answer, Delivered):
            await self._delivered(notice)
            if not self._works:
                self._works = True
                await self._subscribers.record_success(s.tenant_id, s.name)
                self._say(None)
            return "done"
        if isinstance(answer, Unsubscribed):
            log.error("notify: subscriber %s is switched off: %s", s.name, answer.detail)
            await self._subscribers.stop(s.tenant_id, s.name, answer.detail)
            await self._outbox.postpone(notice, 0.0, counts=False)
            return "again"
        if isinstance(answer, DeliveryFailed):
            return await self._fail(notice, answer)
        assert_never(answer)

    async def _remove(self, notices: Sequence[Notification]) -> list[None]:
        await self._outbox.told(self._subscriber.tenant_id, notices)
        return [None] * len(notices)

    async def _fail(self, notice: Notification, answer: DeliveryFailed) -> str:
        s, asked_s, pause_s = self._subscriber, answer.retry_after_s or 0.0, 0.0
        self._works = False
        if answer.is_subscriber_failure:
            pause_s = await self._subscribers.failed(
                s.tenant_id, s.name, answer.detail, asked_s=asked_s
            )
            self._say(answer.detail)
        else:
            await self._subscribers.refused(s.tenant_id, s.name, answer.detail)
        attempts = notice.attempts + answer.counts_as_attempt
        if attempts >= self._max_attempts:
            detail = (
                f"subscriber {s.name} could not be notified in {attempts} attempts: {answer.detail}"
            )
            await self._outbox.bury(notice, reason=answer.reason, detail=detail, attempts=attempts)
            log.error("notify: dead letter (%s): %s", answer.reason, detail)
            return "dead"
        after_s = max(self._wait(attempts), asked_s) if answer.counts_as_attempt else 0.0
        await self._outbox.postpone(notice, after_s, counts=answer.counts_as_attempt)
        log.warning(
            "notify: subscriber %s: %s; retried in %.0f s",
            s.name,
            answer.detail,
            max(after_s, pause_s),
        )
        return "again"

    async def _expire(self) -> None:
        """Turn expired notifications into dead letters."""
        s = self._subscriber
        while found := await self._outbox.lease_expired(
            s.tenant_id, s.name, _MAX_EXPIRED, lease_s=LEASE_S
        ):
            for notice in found:
                detail = (
                    f"subscriber {s.name} was not notified within {s.keep_days:g} days, in "
                    f"{notice.attempts} attempts"
                )
                await self._outbox.bury(
                    notice, reason="expired", detail=detail, attempts=notice.attempts
                )
                self._metrics.events_total.labels(NOTIFY_STAGE, "dead").inc()
            log.error(
                "notify: %d dead letters (expired): subscriber %s was not notified within %g days",
                len(found),
                s.name,
                s.keep_days,
            )

    def _say(self, problem: str | None) -> None:
        if problem != self._said:
            self._said = problem
            self._tell(component_of(self.name), problem)


def _problem(look: DeliveryBatch) -> str | None:
    """Return the problem of a subscriber; None while most deliveries succeed."""
    if look.stopped:
        return (
            f"switched off, because it unsubscribed ({look.problem}): `livedex "
            "subscribers resume` switches it on"
        )
    return look.problem if look.is_failing else None
