"""Tells one subscriber what waits for it.

Invariants: a notice is removed only after it was told, or with the dead letter that it becomes; of
a document only the oldest notice is under way; nothing is sent while the subscriber is paused or
stopped, whichever process found that out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from livedex.consumers.notify.schedule import retry_delay_s
from livedex.consumers.notify.webhook_sender import (
    Delivered,
    DeliveryFailed,
    DeliveryResult,
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
_ROOM_BELOW = MAX_CONCURRENT // 2  # several are taken together
LEASE_S = 60.0  # longer than an attempt and what is written after it
_LOOK_AGAIN_S = 1.0
_AWAY_S = 5.0
_KEEP_AGAIN_S = 0.5
_DRAIN_S = 5.0
_EXPIRE_EVERY_S = 60.0
_EXPIRED_AT_ONCE = 200


def component_of(subscriber: str) -> str:
    """What a subscriber is called in the health."""
    return f"subscriber:{subscriber}"


class DeliveryWorker:
    """Tells one subscriber; several may run, in any number of processes.

    Args:
        attempts: at telling one thing.
        tell: writes down how a component is, for `livedex status`.
        wait: seconds until the next attempt, after so many that failed.
    """

    def __init__(
        self,
        subscriber: SubscriberConfig,
        sender: WebhookSender,
        outbox: NotificationOutbox,
        subscribers: SubscriberStore,
        metrics: Metrics,
        tell: Callable[[str, str | None], None],
        *,
        attempts: int,
        wait: Callable[[int], float] = retry_delay_s,
    ) -> None:
        self._subscriber, self._sender, self._outbox, self._subscribers = (
            subscriber,
            sender,
            outbox,
            subscribers,
        )
        self._metrics, self._tell, self._attempts, self._wait = metrics, tell, attempts, wait
        self._told: MicroBatcher[Notification, None] = MicroBatcher(self._remove)
        self._woken = asyncio.Event()
        self._works = True
        self._said: str | None = ""
        self._expire_at = time.monotonic()

    @property
    def name(self) -> str:
        """Of the subscriber."""
        return self._subscriber.name

    def wake(self) -> None:
        """There is something to tell."""
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Tell until `stop` is set; what was begun is finished, within `_DRAIN_S`."""
        under_way: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            under_way.discard(task)
            if len(under_way) <= _ROOM_BELOW:
                self.wake()

        try:
            while not stop.is_set():
                self._woken.clear()
                pause_s = _LOOK_AGAIN_S
                if len(under_way) <= _ROOM_BELOW:
                    look = await self._look(len(under_way))
                    pause_s = (
                        _AWAY_S if look is None else max(_LOOK_AGAIN_S, min(look.pause_s, _AWAY_S))
                    )
                    for notice in look.notices if look is not None else ():
                        task = asyncio.create_task(self._deliver(notice), name=f"tell {self.name}")
                        under_way.add(task)
                        task.add_done_callback(ended)
                await self._sleep(stop, pause_s)
        finally:
            if under_way:
                await asyncio.wait(under_way, timeout=_DRAIN_S)
            left = list(under_way)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def _sleep(self, stop: asyncio.Event, seconds: float) -> None:
        """Until woken, or `stop` is set, or so many seconds have passed."""
        waits = [asyncio.ensure_future(self._woken.wait()), asyncio.ensure_future(stop.wait())]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _look(self, under_way: int) -> DeliveryBatch | None:
        """Take what can be told now; None where that cannot be found out."""
        s = self._subscriber
        try:
            if time.monotonic() >= self._expire_at:
                self._expire_at = time.monotonic() + _EXPIRE_EVERY_S
                await self._expire()
            look = await self._outbox.take(
                s.tenant_id, s.name, at_once=MAX_CONCURRENT, under_way=under_way, lease_s=LEASE_S
            )
            if look is None:  # gone with all else of its tenant
                await self._subscribers.add(s)
        except TenantDeletedError:
            self._say("its tenant was deleted: take it out of livedex.toml")
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
                outcome = await self._settle(notice, answer)
            except LivedexError as exc:
                log.warning("notify: what %s answered is not kept yet: %s", self.name, exc)
                if (
                    isinstance(exc, TenantDeletedError)
                    or time.monotonic() > begin + LEASE_S - _KEEP_AGAIN_S
                ):
                    return  # its lease runs out, and it is sent again with the same id
                await asyncio.sleep(_KEEP_AGAIN_S)
            else:
                self._metrics.events_total.labels(NOTIFY_STAGE, outcome).inc()
                return

    async def _settle(self, notice: Notification, answer: DeliveryResult) -> str:
        """Keep what an answer means; its name in the metrics."""
        s = self._subscriber
        if isinstance(answer, Delivered):
            await self._told(notice)
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
        attempts = notice.attempts + answer.counts
        if attempts >= self._attempts:
            detail = f"subscriber {s.name} was not told in {attempts} attempts: {answer.detail}"
            await self._outbox.bury(notice, reason=answer.reason, detail=detail, attempts=attempts)
            log.error("notify: dead letter (%s): %s", answer.reason, detail)
            return "dead"
        after_s = max(self._wait(attempts), asked_s) if answer.counts else 0.0
        await self._outbox.postpone(notice, after_s, counts=answer.counts)
        log.warning(
            "notify: subscriber %s: %s, again in %.0f s",
            s.name,
            answer.detail,
            max(after_s, pause_s),
        )
        return "again"

    async def _expire(self) -> None:
        """Make dead letters of what has waited for as long as it may."""
        s = self._subscriber
        while found := await self._outbox.lease_expired(
            s.tenant_id, s.name, _EXPIRED_AT_ONCE, lease_s=LEASE_S
        ):
            for notice in found:
                detail = (
                    f"subscriber {s.name} was not told within {s.keep_days:g} days, in "
                    f"{notice.attempts} attempts"
                )
                await self._outbox.bury(
                    notice, reason="expired", detail=detail, attempts=notice.attempts
                )
                self._metrics.events_total.labels(NOTIFY_STAGE, "dead").inc()
            log.error(
                "notify: %d dead letters (expired): subscriber %s was not told within %g days",
                len(found),
                s.name,
                s.keep_days,
            )

    def _say(self, problem: str | None) -> None:
        if problem != self._said:
            self._said = problem
            self._tell(component_of(self.name), problem)


def _problem(look: DeliveryBatch) -> str | None:
    """What is wrong with a subscriber, in words; None while it takes what it is sent, but for a
    few things.
    """
    if look.stopped:
        return (
            f"switched off, for it wants to be told no more ({look.problem}): `livedex "
            "subscribers resume` switches it on"
        )
    return look.problem if look.is_failing else None
