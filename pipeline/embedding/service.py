"""Embed texts and queries through an unreliable provider.

| event | reaction |
|---|---|
| timeout, 5xx, invalid response | retried with backoff |
| 429 or Retry-After | all document requests wait; a wait above 10 s is an outage |
| still failing | a probe decides: if it succeeds, bisection finds the text at fault; otherwise it
is an outage |
| 400, 422 | bisection finds the rejected text |
| 413, or 400 because of the size | the request is halved, and requests stay small for a while |
| 401, 403, 404 and the like | a probe decides: if it fails, it is an outage; otherwise bisection
finds the denied text |
| 402, no quota, repeated 429 | the same, but a text is rejected only if others are embedded
meanwhile |
| an outage | all requests fail fast, the health shows the cause, and a probe at growing intervals
detects recovery |

Invariants: a text that was embedded is not sent again; no text is rejected because of an outage;
every vector is finite, of the configured dimensions and of length 1.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, MutableMapping, Sequence
from contextlib import aclosing

from livedex.pipeline.embedding.circuit_breaker import ProviderHealth
from livedex.pipeline.embedding.client import (
    EmbeddingClient,
    NullObserver,
    RequestObserver,
    always_permitted,
)
from livedex.pipeline.embedding.embed_call import EmbedCall, RequestSizeLimit, TextResult
from livedex.pipeline.embedding.embedder import Embedder, EmbedLimits, TextKind, Vector
from livedex.pipeline.embedding.poison_texts import PoisonTexts
from livedex.pipeline.embedding.query_embedder import QUERY_DEADLINE_S, CachedQueryEmbedder
from livedex.pipeline.embedding.vectors import MAX_DIMENSIONS
from livedex.pipeline.errors import ConfigError, RetryableError
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.clock import Clock


def _ignore_health(ok: bool, reason: str) -> None:
    """Ignore a change of the health."""


class EmbeddingService:
    """Embeds texts and queries through an unreliable provider.

    Args:
        embedder: the provider; `close` closes it.
        dimensions: configured length of vectors; None takes the model's.
        clock: waits and measures time.
        observer: receives request metrics.
        on_health: called with (healthy, reason) at every change of the provider's health.
        query_deadline_s: seconds until a query fails, > 0.
        count_query: called with the tenant and the tokens of a text that was sent and is not
            stored.
        count_documents: called with the tokens of texts that were embedded.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        dimensions: int | None = None,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
        on_health: Callable[[bool, str], None] = _ignore_health,
        query_deadline_s: float = QUERY_DEADLINE_S,
        count_query: Callable[[TenantId, int], None] | None = None,
        count_documents: Callable[[int], None] | None = None,
    ) -> None:
        self._embedder, self._count_documents = embedder, count_documents
        self._client = EmbeddingClient(
            embedder,
            dimensions=dimensions or embedder.dimensions,
            clock=clock or Clock(),
            observer=observer or NullObserver(),
            on_health=on_health,
        )
        self._size_limit, self._poison_texts = RequestSizeLimit(embedder.limits), PoisonTexts()
        self._queries = CachedQueryEmbedder(
            self._client, deadline_s=query_deadline_s, count_query=count_query
        )

    @property
    def model_id(self) -> str:
        """Return the name of the vector space."""
        return self._embedder.model_id

    @property
    def in_process(self) -> bool:
        """Return whether embedding is free and faster than coordination; see `Embedder`."""
        return getattr(self._embedder, "in_process", False) is True

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector as configured or first returned; None before that."""
        return self._client.dimensions

    @property
    def limits(self) -> EmbedLimits:
        """Return the bounds of a request."""
        return self._client.limits

    @property
    def health(self) -> ProviderHealth:
        """Return the provider's health, its reason and its time."""
        return self._client.breaker.health

    async def embed_documents(
        self,
        texts: Sequence[str],
        *,
        permit: Callable[[], None] = always_permitted,
        tokens: MutableMapping[int, int] | None = None,
    ) -> AsyncGenerator[list[TextResult], None]:
        """Embed document texts.

        Args:
            texts: n texts of any size.
            permit: called before each request; raises OutageError if nothing may be sent any more.
            tokens: receives the tokens of each text, by its index, before its result is yielded:
                its share of what the provider counted for the request, or an estimate.

        Yields:
            after each request: (index, vector) of its texts, each vector float32 of length 1 and
            shape (dimensions,); or (index, RejectedError) of a text that the model never takes.
            Every index comes once, unless an error is raised.

        Raises:
            OutageError: the provider is unavailable. Earlier results have been delivered; the rest
                is to be requested again later.
        """
        if not texts:
            return
        self._client.breaker.check()
        counted = dict[int, int]() if tokens is None else tokens
        call = EmbedCall(texts, self._client, self._size_limit, self._poison_texts, permit, counted)
        async with aclosing(call.results()) as results:
            async for result in results:
                if self._count_documents is not None:
                    self._count_documents(sum(counted.get(index, 0) for index, _ in result))
                yield result

    async def embed_query(self, text: str, *, tenant_id: TenantId | None = None) -> Vector:
        """Embed a query, without waiting for documents.

        Args:
            text: not blank; truncated to the model's limit.
            tenant_id: who searches; None: it is not counted for anybody.

        Returns:
            read-only float32 array of shape (dimensions,), of length 1.

        Raises:
            OutageError: the provider is unavailable; raised without a request.
            RetryableError: no vector within the deadline.
        """
        return await self._queries.embed(text, tenant_id=tenant_id)

    async def embed_text(
        self, text: str, kind: TextKind, *, tenant_id: TenantId | None = None
    ) -> Vector:
        """Embed one text that is not stored, within the deadline of a query.

        Args:
            text: not blank, of at most `limits.max_text_characters`.
            kind: whether the model shall treat it as a query or as a document.
            tenant_id: as of `embed_query`.

        Returns:
            As `embed_query`.

        Raises:
            OutageError: the provider is unavailable; raised without a request.
            RetryableError: no vector within the deadline.
        """
        return await self._queries.embed(text, kind, tenant_id=tenant_id)

    async def check(self) -> int:
        """Compare the configured dimensions with the model's; sends nothing once they are known.

        Returns:
            the length of a vector.

        Raises:
            ConfigError: the model's dimensions differ from the configuration or cannot be stored.
            OutageError: the provider does not answer now.
        """
        if self._client.is_dimensions_confirmed and self._client.dimensions is not None:
            return self._client.dimensions
        self._client.breaker.check()
        try:
            found = await self._client.measure_dimensions()
        except RetryableError as exc:
            raise self._client.breaker.open(exc) from exc
        expected = self._client.dimensions
        if found > MAX_DIMENSIONS:
            raise ConfigError(
                f"the model {self.model_id} gives vectors of length {found}, and at most "
                f"{MAX_DIMENSIONS} can be stored and indexed: choose another "
                "LIVEDEX_EMBEDDER, or a variant of this model with shorter vectors"
            )
        if expected != found:
            raise ConfigError(
                f"LIVEDEX_DIMENSIONS is {expected}, but the model {self.model_id} gives "
                f"vectors of length {found}: "
                f"set LIVEDEX_DIMENSIONS={found}, leave it out, or choose another LIVEDEX_EMBEDDER"
            )
        return found

    def stop_sending(self) -> None:
        """Send no more document requests, so that the process can end; requests in flight end."""
        self._client.stop()

    async def close(self) -> None:
        """Stop background work and close the embedder."""
        await self._queries.close()
        await self._client.close()
