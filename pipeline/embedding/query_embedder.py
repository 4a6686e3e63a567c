"""Embed search queries with a short deadline, a cache, and no queueing behind documents."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from livedex.pipeline.costs.token_counts import estimate_tokens
from livedex.pipeline.costs.token_usage import collect_token_usage
from livedex.pipeline.embedding.client import MAX_PAUSE_S, EmbeddingClient
from livedex.pipeline.embedding.embedder import TextKind, Vector
from livedex.pipeline.errors import OutageError, RateLimitedError, RejectedError, RetryableError
from livedex.pipeline.model import TenantId

QUERY_DEADLINE_S = 3.0
_CACHE_SIZE = 512
_RETRY_DELAY_S = 0.1


class CachedQueryEmbedder:
    """Embeds queries and caches the last few hundred vectors.

    Args:
        client: sends the requests.
        deadline_s: seconds until a query fails, > 0.
        count_query: called with the tenant and the tokens of each text that was sent.
    """

    def __init__(
        self,
        client: EmbeddingClient,
        *,
        deadline_s: float = QUERY_DEADLINE_S,
        count_query: Callable[[TenantId, int], None] | None = None,
    ) -> None:
        self._count_query = count_query
        self._client, self._breaker, self._clock = client, client.breaker, client.clock
        self._deadline_s = deadline_s
        self._cache: OrderedDict[tuple[TextKind, str], Vector] = OrderedDict()
        self._paused_until = 0.0
        self._background_probe: asyncio.Task[None] | None = None

    async def embed(
        self, text: str, kind: TextKind = "query", *, tenant_id: TenantId | None = None
    ) -> Vector:
        """Return the vector of a text.

        Args:
            text: not blank; truncated to the model's limit.
            kind: whether the model shall treat it as a query or as a document.
            tenant_id: who pays; None: nobody.

        Returns:
            read-only float32 array of shape (dimensions,), of length 1.

        Raises:
            RateLimitedError: the provider named a time to wait for.
            OutageError: the provider is unavailable; raised without a request.
            RetryableError: no vector within the deadline.
        """
        text = text[: self._client.limits.max_text_characters]
        cached = self._cache.get((kind, text))
        if cached is not None:
            self._cache.move_to_end((kind, text))
            return cached
        self._breaker.check()
        wait_s = self._paused_until - self._clock.monotonic()
        if wait_s > 0:
            raise RateLimitedError("the provider rate-limits queries", retry_after_s=wait_s)
        with collect_token_usage() as usage:
            vector = await self._embed_in_time(text, kind)
        if tenant_id is not None and self._count_query is not None:
            self._count_query(tenant_id, usage.tokens or estimate_tokens(len(text)))
        self._breaker.record_success()
        self._cache[(kind, text)] = vector
        if len(self._cache) > _CACHE_SIZE:
            self._cache.popitem(last=False)
        return vector

    async def close(self) -> None:
        """Stop the background probe."""
        if self._background_probe is not None:
            self._background_probe.cancel()
            await asyncio.gather(self._background_probe, return_exceptions=True)

    async def _embed_in_time(self, text: str, kind: TextKind) -> Vector:
        try:
            async with asyncio.timeout(self._deadline_s):
                vector = await self._request_twice(text, kind)
        except OutageError as exc:
            await self._check_whether_only_the_query_is_denied(exc)
            raise RetryableError(f"the embedder denies the query: {exc}") from exc
        except RateLimitedError as exc:
            if (exc.retry_after_s or 0.0) > MAX_PAUSE_S:
                raise self._breaker.open(exc) from exc
            self._paused_until = self._clock.monotonic() + (exc.retry_after_s or 0.0)
            raise
        except TimeoutError as exc:
            self._probe_in_background()
            raise RetryableError(
                f"the embedder did not answer a query in {self._deadline_s:.0f} s"
            ) from exc
        except RejectedError as exc:
            self._probe_in_background()
            raise RetryableError(f"the embedder refuses the query: {exc}") from exc
        except RetryableError:
            self._probe_in_background()
            raise
        vector.setflags(write=False)
        return vector

    async def _check_whether_only_the_query_is_denied(self, denied: OutageError) -> None:
        """Return if a probe succeeds: then only this query is denied.

        Raises:
            OutageError: the probe failed; the circuit breaker is open from now on.
        """
        try:
            async with asyncio.timeout(self._deadline_s):
                await self._client.request_probe()
        except (RetryableError, TimeoutError) as exc:
            raise self._breaker.open(denied) from exc

    async def _request_twice(self, text: str, kind: TextKind) -> Vector:
        try:
            return await self._request(text, kind)
        except (OutageError, RateLimitedError):
            raise
        except RetryableError:
            await self._clock.sleep(_RETRY_DELAY_S)
            return await self._request(text, kind)

    async def _request(self, text: str, kind: TextKind) -> Vector:
        vector: Vector = (await self._client.request([text], kind))[0]
        return vector

    def _probe_in_background(self) -> None:
        """Find out whether the provider is down for all, without delaying the failed query."""
        if self._background_probe is None or self._background_probe.done():
            self._background_probe = asyncio.create_task(self._probe())

    async def _probe(self) -> None:
        try:
            await self._client.request_probe()
        except RetryableError as exc:
            self._breaker.open(exc)
