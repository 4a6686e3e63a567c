"""Send requests to the provider: bounded concurrency, retries, Retry-After for all document
requests, validated responses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from livedex.pipeline.embedding.circuit_breaker import MAX_PROVIDER_WAIT_S, CircuitBreaker
from livedex.pipeline.embedding.embedder import Embedder, TextKind, Vectors
from livedex.pipeline.embedding.provider_errors import COMPONENT, TextDeniedError
from livedex.pipeline.embedding.provider_messages import redact
from livedex.pipeline.embedding.vectors import unit_vectors
from livedex.pipeline.errors import (
    LivedexError,
    OutageError,
    RateLimitedError,
    RejectedError,
    RetryableError,
)
from livedex.pipeline.runtime.clock import Clock

PROBE_TEXT = "livedex"
"""The text of a probe request. No model rejects it."""
MAX_PAUSE_S = 10.0
"""A Retry-After above this is an outage: requests fail fast instead of waiting for it."""
MAX_TRIES = 4
_MAX_RATE_LIMITED_TRIES = 6

RequestOutcome = Literal["ok", "retry", "rejected", "outage"]


class RequestObserver(Protocol):
    """Receives request metrics."""

    def embedded(self, texts: int, characters: int) -> None:
        """Count document texts that were embedded."""
        ...

    def requested(self, outcome: RequestOutcome) -> None:
        """Count a request."""
        ...


class NullObserver:
    """Ignores all metrics."""

    def embedded(self, texts: int, characters: int) -> None:
        """Ignore embedded texts."""

    def requested(self, outcome: RequestOutcome) -> None:
        """Ignore a request."""


def always_permitted() -> None:
    """Permit every request."""


class EmbeddingClient:
    """Sends requests to an embedder whose responses are not trusted.

    Document requests share one pause: after a Retry-After, none is sent before that time. An outage
    opens the circuit breaker; from then on every request fails before it is sent. The same holds
    after `stop`, so that a process can end.

    Args:
        embedder: the provider.
        dimensions: required length of a vector; None takes the length of the first response.
        clock: waits and measures time.
        observer: receives request metrics.
        on_health: called with (healthy, reason) at every change of the provider's health.

    Attributes:
        limits: bounds of a request.
        breaker: the circuit breaker of the provider.
        clock: waits and measures time.
        is_dimensions_confirmed: whether the provider returned a vector of `dimensions`.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        dimensions: int | None,
        clock: Clock,
        observer: RequestObserver,
        on_health: Callable[[bool, str], None],
    ) -> None:
        self._embedder, self._observer = embedder, observer
        self.limits, self.clock = embedder.limits, clock
        self.breaker = CircuitBreaker(self.request_probe, clock, on_health)
        self.is_dimensions_confirmed = False
        self._dimensions = dimensions
        self._semaphore = asyncio.Semaphore(self.limits.concurrency)
        self._paused_until = 0.0
        self._is_stopped = False

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector, or None before the first response."""
        return self._dimensions

    async def send_documents(
        self,
        texts: Sequence[str],
        *,
        max_tries: int = MAX_TRIES,
        permit: Callable[[], None] = always_permitted,
    ) -> Vectors:
        """Embed document texts, with retries.

        Args:
            texts: n texts within `limits`, n >= 1.
            max_tries: requests, >= 1. Rate-limited requests have a bound of their own.
            permit: called before each request; its exception ends the call.

        Returns:
            float32 array of shape (n, dimensions), each row of length 1.

        Raises:
            OutageError: the provider is unavailable, or rate-limits even a probe.
            RetryableError: every try failed. A probe can tell whether the texts or the provider
                are at fault.
            RejectedError: the provider rejected the texts.
            TextDeniedError: it denied them while it answered a probe.
        """
        failures = rate_limits = 0
        while True:
            try:
                return await self._send_once(texts, permit)
            except OutageError:
                raise
            except RateLimitedError as exc:
                rate_limits += 1
                if rate_limits == _MAX_RATE_LIMITED_TRIES:
                    await self.probe()
                    raise TextDeniedError(exc) from exc
                self._pause(self.clock.backoff_s(rate_limits))
            except RetryableError:
                failures += 1
                if failures == max_tries:
                    raise
                await self.clock.sleep(self.clock.backoff_s(failures))

    async def request(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Send one request now, without retries, pause or circuit breaker.

        Returns:
            float32 array of shape (n, dimensions), finite, each row of length 1.

        Raises:
            LivedexError: as `Embedder.embed`; any other exception of the embedder becomes a
                RetryableError.
        """
        vectors = await self._request(texts, kind, self._dimensions)
        self._dimensions, self.is_dimensions_confirmed = vectors.shape[1], True
        if kind == "document":
            self._observer.embedded(len(texts), sum(map(len, texts)))
        return vectors

    async def request_probe(self) -> None:
        """Send a probe request now.

        Raises:
            OutageError: the provider rejects even the probe.
            RetryableError: the provider does not work, for any other reason.
        """
        try:
            await self.request([PROBE_TEXT], "query")
        except RejectedError as exc:
            raise OutageError(COMPONENT, f"even a probe is refused: {exc}") from exc

    async def probe(self) -> None:
        """Check that the provider works at this moment; open the circuit breaker if not.

        Raises:
            OutageError: the provider does not work.
        """
        await self._wait_until_allowed()
        try:
            await self.request_probe()
        except RetryableError as exc:
            raise self.breaker.open(exc) from exc

    async def measure_dimensions(self) -> int:
        """Return the length of the model's vectors, whatever is configured.

        Raises:
            OutageError: the provider rejects the request.
            RetryableError: the provider does not answer now.
        """
        try:
            found: int = (await self._request([PROBE_TEXT], "query", None)).shape[1]
        except RejectedError as exc:
            raise OutageError(COMPONENT, f"even a probe is refused: {exc}") from exc
        if self._dimensions in (None, found):
            self._dimensions, self.is_dimensions_confirmed = found, True
        return found

    def stop(self) -> None:
        """Send no more document requests; requests in flight still end."""
        self._is_stopped = True

    async def close(self) -> None:
        """Stop probing and close the embedder."""
        await self.breaker.close()
        await self._embedder.close()

    async def _send_once(self, texts: Sequence[str], permit: Callable[[], None]) -> Vectors:
        async with self._semaphore:
            await self._wait_until_allowed()
            permit()
            try:
                vectors = await self.request(texts, "document")
            except RetryableError as exc:
                self._pause(min(exc.retry_after_s or 0.0, MAX_PROVIDER_WAIT_S))
                if (exc.retry_after_s or 0.0) > MAX_PAUSE_S:
                    raise self.breaker.open(exc) from exc
                if isinstance(exc, OutageError):
                    await self.probe()  # it succeeds: only these texts are denied
                    raise TextDeniedError(exc) from exc
                raise
        self.breaker.record_success()
        return vectors

    async def _request(
        self, texts: Sequence[str], kind: TextKind, dimensions: int | None
    ) -> Vectors:
        try:
            vectors = unit_vectors(
                await self._embedder.embed(texts, kind=kind), len(texts), dimensions
            )
        except OutageError:
            self._observer.requested("outage")
            raise
        except RetryableError:
            self._observer.requested("retry")
            raise
        except RejectedError:
            self._observer.requested("rejected")
            raise
        except LivedexError:
            raise
        # a user's own class may raise anything
        except Exception as exc:
            self._observer.requested("retry")
            raise RetryableError(
                f"the embedder failed: {type(exc).__name__}: {redact(str(exc), texts)}".rstrip(": ")
            ) from exc
        self._observer.requested("ok")
        return vectors

    async def _wait_until_allowed(self) -> None:
        self._check_allowed()
        while (wait_s := self._paused_until - self.clock.monotonic()) > 0:
            if wait_s > MAX_PAUSE_S:
                raise OutageError(
                    COMPONENT, "the provider rate-limits all requests", retry_after_s=wait_s
                )
            await self.clock.sleep(wait_s)
            self._check_allowed()

    def _check_allowed(self) -> None:
        if self._is_stopped:
            raise OutageError(COMPONENT, "the process is shutting down and sends no more texts")
        self.breaker.check()

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self.clock.monotonic() + seconds)
