"""Queries take their own way to the provider: never behind documents, soon answered or soon
refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from livedex.pipeline.embedding.circuit_breaker import CircuitBreaker
from livedex.pipeline.embedding.client import MAX_PAUSE_S
from livedex.pipeline.embedding.embedder import TextKind, Vector
from livedex.pipeline.embedding.provider import CheckedEmbedder
from livedex.pipeline.errors import OutageError, RateLimitedError, RejectedError, RetryableError
from livedex.pipeline.runtime.clock import Clock

QUERY_DEADLINE_S = 3.0
_REMEMBERED = 512
_RETRY_S = 0.1


class CachedQueryEmbedder:
    """Embeds queries, and remembers the last few hundred.

    Args:
        deadline_s: the longest a query takes.
        max_characters: what a query is cut to.
    """

    def __init__(
        self,
        provider: CheckedEmbedder,
        breaker: CircuitBreaker,
        clock: Clock,
        *,
        max_characters: int,
        deadline_s: float = QUERY_DEADLINE_S,
    ) -> None:
        self._provider, self._breaker, self._clock = provider, breaker, clock
        self._max_characters, self._deadline_s = max_characters, deadline_s
        self._remembered: OrderedDict[tuple[TextKind, str], Vector] = OrderedDict()
        self._paused_until = 0.0
        self._doubt: asyncio.Task[None] | None = None

    async def embed(self, text: str, kind: TextKind = "query") -> Vector:
        """The vector of a query; see `EmbeddingService.embed_query`."""
        text = text[: self._max_characters]
        known = self._remembered.get((kind, text))
        if known is not None:
            self._remembered.move_to_end((kind, text))
            return known
        self._breaker.admit()
        wait_s = self._paused_until - self._clock.monotonic()
        if wait_s > 0:
            raise RateLimitedError("the embedder asked for patience", retry_after_s=wait_s)
        vector = await self._ask(text, kind)
        self._breaker.record_success()
        self._remembered[(kind, text)] = vector
        if len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        return vector

    async def close(self) -> None:
        """End what runs in the background."""
        if self._doubt is not None:
            self._doubt.cancel()
            await asyncio.gather(self._doubt, return_exceptions=True)

    async def _ask(self, text: str, kind: TextKind) -> Vector:
        try:
            async with asyncio.timeout(self._deadline_s):
                vector = await self._ask_twice(text, kind)
        except OutageError as exc:
            await self._ask_whether_all_are_denied(exc)
            raise RetryableError(f"the embedder denies the query: {exc}") from exc
        except RateLimitedError as exc:
            if (exc.retry_after_s or 0.0) > MAX_PAUSE_S:
                raise self._breaker.open(exc) from exc
            self._paused_until = self._clock.monotonic() + (exc.retry_after_s or 0.0)
            raise
        except TimeoutError as exc:
            self._look_into_it()
            raise RetryableError(
                f"the embedder did not answer a query in {self._deadline_s:.0f} s"
            ) from exc
        except RejectedError as exc:
            self._look_into_it()
            raise RetryableError(f"the embedder refuses the query: {exc}") from exc
        except RetryableError:
            self._look_into_it()
            raise
        vector.setflags(write=False)
        return vector

    async def _ask_whether_all_are_denied(self, denied: OutageError) -> None:
        """Go on only if a probe is answered: then it is this query that is denied.

        Raises:
            OutageError: it is not; the breaker is open from now on.
        """
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._provider.probe()
        except (RetryableError, TimeoutError) as exc:
            raise self._breaker.open(denied) from exc

    async def _ask_twice(self, text: str, kind: TextKind) -> Vector:
        try:
            return await self._ask_once(text, kind)
        except (OutageError, RateLimitedError):
            raise
        except RetryableError:
            await self._clock.sleep(_RETRY_S)
            return await self._ask_once(text, kind)

    async def _ask_once(self, text: str, kind: TextKind) -> Vector:
        vector: Vector = (await self._provider.ask([text], kind))[0]
        return vector

    def _look_into_it(self) -> None:
        """A query failed: find out with a probe, behind its back, whether the provider is down for
        all.
        """
        if self._doubt is None or self._doubt.done():
            self._doubt = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        try:
            await self._provider.probe()
        except RetryableError as exc:
            self._breaker.open(exc)
