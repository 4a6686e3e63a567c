"""Fail fast while the provider is unavailable; probe it at growing intervals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from livedex.pipeline.embedding.provider_errors import COMPONENT
from livedex.pipeline.errors import LivedexError, OutageError, RetryableError
from livedex.pipeline.runtime.backoff import EMBEDDING_PROBE
from livedex.pipeline.runtime.clock import Clock

log = logging.getLogger(__name__)

MAX_PROVIDER_WAIT_S = 300.0
"""Upper bound of a Retry-After that is respected."""
_MIN_RETRY_AFTER_S = 0.25


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """Health of the provider.

    Attributes:
        status: `down` from an outage until a probe succeeds.
        reason: of the outage; empty if healthy.
        since: when this status began, aware.
    """

    status: Literal["ok", "down"]
    reason: str
    since: datetime


class CircuitBreaker:
    """Closed, or open with a background task that probes the provider.

    The task does not depend on callers: an unavailable service gets no requests that could detect
    recovery.

    Args:
        probe: raises RetryableError while the provider does not work.
        clock: waits and measures time.
        on_health: called with (healthy, reason) at every change.

    Attributes:
        health: of the provider.
    """

    def __init__(
        self,
        probe: Callable[[], Awaitable[None]],
        clock: Clock,
        on_health: Callable[[bool, str], None],
    ) -> None:
        self._probe, self._clock, self._on_health = probe, clock, on_health
        self._failures = 0
        self._probe_at = 0.0
        self._probe_task: asyncio.Task[None] | None = None
        self.health = ProviderHealth("ok", "", clock.now())

    def check(self) -> None:
        """Return if the breaker is closed.

        Raises:
            OutageError: the breaker is open; `retry_after_s` is the time until the next probe.
        """
        if self.health.status == "down":
            raise self._outage()

    def open(self, cause: RetryableError) -> OutageError:
        """Open the breaker until a probe succeeds.

        Args:
            cause: its `retry_after_s` delays the next probe.

        Returns:
            the error for the caller to raise.
        """
        if self.health.status == "ok":
            self._schedule(cause)
            self._set_health(ProviderHealth("down", str(cause), self._clock.now()))
            self._probe_task = asyncio.create_task(self._probe_until_success())
        else:
            self._probe_at = max(
                self._probe_at, self._clock.monotonic() + _bounded_retry_after_s(cause)
            )
        return self._outage()

    def record_success(self) -> None:
        """Reset the probe delay after a successful request that is not a probe."""
        if self.health.status == "ok":
            self._failures = 0

    async def close(self) -> None:
        """Stop probing."""
        if self._probe_task is not None:
            self._probe_task.cancel()
            await asyncio.gather(self._probe_task, return_exceptions=True)

    async def _probe_until_success(self) -> None:
        while True:
            while (wait_s := self._probe_at - self._clock.monotonic()) > 0:
                await self._clock.sleep(wait_s)
            try:
                await self._probe()
            except Exception as exc:
                if not isinstance(exc, LivedexError):
                    log.exception(
                        "the probe of the embedder failed with an unexpected error; it is retried"
                    )
                cause = (
                    exc
                    if isinstance(exc, RetryableError)
                    else RetryableError(str(exc) or type(exc).__name__)
                )
                self._schedule(cause)
                self._set_health(ProviderHealth("down", str(cause), self.health.since))
            else:
                self._set_health(ProviderHealth("ok", "", self._clock.now()))
                return

    def _schedule(self, cause: RetryableError) -> None:
        self._failures += 1
        self._probe_at = self._clock.monotonic() + max(
            EMBEDDING_PROBE.delay_s(self._failures), _bounded_retry_after_s(cause)
        )

    def _set_health(self, health: ProviderHealth) -> None:
        before, self.health = self.health, health
        if (before.status, before.reason) != (health.status, health.reason):
            self._on_health(health.status == "ok", health.reason)

    def _outage(self) -> OutageError:
        wait_s = max(_MIN_RETRY_AFTER_S, self._probe_at - self._clock.monotonic())
        return OutageError(COMPONENT, self.health.reason, retry_after_s=wait_s)


def _bounded_retry_after_s(cause: RetryableError) -> float:
    return min(cause.retry_after_s or 0.0, MAX_PROVIDER_WAIT_S)
