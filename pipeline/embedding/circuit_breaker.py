"""The circuit breaker: while the provider is away nobody asks it, but for one probe at growing
intervals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from livedex.pipeline.embedding.provider_errors import COMPONENT
from livedex.pipeline.errors import LivedexError, OutageError, RetryableError
from livedex.pipeline.runtime.clock import Clock

log = logging.getLogger(__name__)

FIRST_PROBE_DELAY_S, MAX_PROBE_DELAY_S = 0.5, 15.0
MAX_PROVIDER_WAIT_S = 300.0
"""A provider that asks for more patience than this is tried again after this."""
_ABOUT_TO_S = 0.25


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """How the provider is.

    Attributes:
        status: `down` from an outage until a probe is answered.
        reason: of the outage; empty when all is well.
        since: when this status began, aware.
    """

    status: Literal["ok", "down"]
    reason: str
    since: datetime


class CircuitBreaker:
    """Closed, or open with a task that tries the provider.

    The task needs nobody to come by: a service that nobody turns to because it is down would stay
    so.

    Args:
        probe: raises RetryableError while the provider does not work.
        on_health: called with (whether it is well, reason) at every change.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        clock: Clock,
        on_health: Callable[[bool, str], None],
    ) -> None:
        self._probe, self._clock, self._on_health = probe, clock, on_health
        self._pause_s = FIRST_PROBE_DELAY_S
        self._trial_at = 0.0
        self._trials: asyncio.Task[None] | None = None
        self.health = ProviderHealth("ok", "", clock.now())

    def admit(self) -> None:
        """Pass, or fail at once.

        Raises:
            OutageError: the breaker is open; `retry_after_s` is the time until the next trial.
        """
        if self.health.status == "down":
            raise self._outage()

    def open(self, cause: RetryableError) -> OutageError:
        """Let nobody through until a probe is answered.

        Args:
            cause: its `retry_after_s` puts the next trial off.

        Returns:
            what the caller raises.
        """
        if self.health.status == "ok":
            self._schedule(cause)
            self._tell(ProviderHealth("down", str(cause), self._clock.now()))
            self._trials = asyncio.create_task(self._try_until_it_works())
        else:
            self._trial_at = max(self._trial_at, self._clock.monotonic() + _heeded_s(cause))
        return self._outage()

    def record_success(self) -> None:
        """Something other than a probe was answered well: the next outage starts with a short
        pause again.
        """
        if self.health.status == "ok":
            self._pause_s = FIRST_PROBE_DELAY_S

    async def close(self) -> None:
        """End the trials."""
        if self._trials is not None:
            self._trials.cancel()
            await asyncio.gather(self._trials, return_exceptions=True)

    async def _try_until_it_works(self) -> None:
        while True:
            while (wait_s := self._trial_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(wait_s)
            try:
                await self._probe()
            except Exception as exc:
                if not isinstance(exc, LivedexError):
                    log.exception(
                        "the probe of the embedder failed in a way that nobody foresaw; it "
                        "is tried again"
                    )
                cause = (
                    exc
                    if isinstance(exc, RetryableError)
                    else RetryableError(str(exc) or type(exc).__name__)
                )
                self._schedule(cause)
                self._tell(ProviderHealth("down", str(cause), self.health.since))
            else:
                self._tell(ProviderHealth("ok", "", self._clock.now()))
                return

    def _schedule(self, cause: RetryableError) -> None:
        self._trial_at = self._clock.monotonic() + max(self._pause_s, _heeded_s(cause))
        self._pause_s = min(self._pause_s * 2, MAX_PROBE_DELAY_S)

    def _tell(self, health: ProviderHealth) -> None:
        before, self.health = self.health, health
        if (before.status, before.reason) != (health.status, health.reason):
            self._on_health(health.status == "ok", health.reason)

    def _outage(self) -> OutageError:
        wait_s = max(_ABOUT_TO_S, self._trial_at - self._clock.monotonic())
        return OutageError(COMPONENT, self.health.reason, retry_after_s=wait_s)


def _heeded_s(cause: RetryableError) -> float:
    return min(cause.retry_after_s or 0.0, MAX_PROVIDER_WAIT_S)
