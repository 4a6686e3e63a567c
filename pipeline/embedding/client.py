"""The line that documents' texts take to the provider: so many requests at once, one pause for
all, bounded tries.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from livedex.pipeline.embedding.circuit_breaker import MAX_PROVIDER_WAIT_S, CircuitBreaker
from livedex.pipeline.embedding.embedder import Vectors
from livedex.pipeline.embedding.provider import CheckedEmbedder
from livedex.pipeline.embedding.provider_errors import COMPONENT, TextDeniedError
from livedex.pipeline.errors import OutageError, RateLimitedError, RetryableError
from livedex.pipeline.runtime.clock import Clock

MAX_PAUSE_S = 10.0
"""A provider that asks for more patience than this is down for as long: nobody sleeps on it."""
MAX_TRIES = 4
_THROTTLED_TRIES = 6


def always_permitted() -> None:
    """Let every request be sent."""


class EmbeddingClient:
    """Sends documents' texts.

    When the provider names a time, nothing at all is sent before it, whichever request was told. An
    outage opens the breaker, and from then on every request fails before it is sent. The same after
    `stop`, so that a process can end.

    Args:
        concurrency: requests under way at once, >= 1.
    """

    def __init__(
        self, provider: CheckedEmbedder, breaker: CircuitBreaker, clock: Clock, concurrency: int
    ) -> None:
        self._provider, self._breaker, self._clock = provider, breaker, clock
        self._slots = asyncio.Semaphore(concurrency)
        self._paused_until = 0.0
        self._stopped = False

    async def send(
        self,
        texts: Sequence[str],
        *,
        tries: int = MAX_TRIES,
        permit: Callable[[], None] = always_permitted,
    ) -> Vectors:
        """Send texts, again where that may help.

        Args:
            tries: requests at most, >= 1; those answered with 429 are counted apart.
            permit: called just before each request; what it raises ends the call.

        Returns:
            float32 array of shape (n, dimensions), each row of length 1.

        Raises:
            OutageError: the provider is away, or keeps asking for patience, a probe too.
            RetryableError: every try failed; whether the texts or the provider are to blame, a
            probe can tell.
            RejectedError: refused, or denied while a probe was answered.
        """
        failed = throttled = 0
        while True:
            try:
                return await self._send_once(texts, permit)
            except OutageError:
                raise
            except RateLimitedError as exc:
                throttled += 1
                if throttled == _THROTTLED_TRIES:
                    await self.probe()
                    raise TextDeniedError(exc) from exc
                self._pause(self._clock.backoff_s(throttled))
            except RetryableError:
                failed += 1
                if failed == tries:
                    raise
                await self._clock.sleep(self._clock.backoff_s(failed))

    async def probe(self) -> None:
        """Ask whether the provider works at this moment.

        Raises:
            OutageError: it does not; the breaker is open from now on.
        """
        await self._let_through()
        try:
            await self._provider.probe()
        except RetryableError as exc:
            raise self._breaker.open(exc) from exc

    def stop(self) -> None:
        """Send nothing any more; requests under way still end."""
        self._stopped = True

    def give_up(self, reason: RetryableError) -> OutageError:
        """Declare an outage; what the caller raises."""
        return self._breaker.open(reason)

    async def _send_once(self, texts: Sequence[str], permit: Callable[[], None]) -> Vectors:
        async with self._slots:
            await self._let_through()
            permit()
            try:
                vectors = await self._provider.ask(texts, "document")
            except RetryableError as exc:
                self._pause(min(exc.retry_after_s or 0.0, MAX_PROVIDER_WAIT_S))
                if (exc.retry_after_s or 0.0) > MAX_PAUSE_S:
                    raise self._breaker.open(exc) from exc
                if isinstance(exc, OutageError):
                    await self.probe()  # where it is answered, these texts are denied and no others
                    raise TextDeniedError(exc) from exc
                raise
        self._breaker.record_success()
        return vectors

    async def _let_through(self) -> None:
        self._admit()
        while (wait_s := self._paused_until - self._clock.monotonic()) > 0:
            if wait_s > MAX_PAUSE_S:
                raise OutageError(
                    COMPONENT, "the provider asked for patience", retry_after_s=wait_s
                )
            await self._clock.sleep(wait_s)
            self._admit()

    def _admit(self) -> None:
        if self._stopped:
            raise OutageError(COMPONENT, "no texts are sent any more: the process ends")
        self._breaker.admit()

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)
