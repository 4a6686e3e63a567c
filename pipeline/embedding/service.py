"""Vectors from a provider that may fail in every way.

| what happens | what is done |
|---|---|
| silence, 5xx, a wrong answer | tried again a few times with growing pauses |
| 429, or a time to wait for | no text of a document is sent before; a long one is an outage |
| it goes on | a probe decides: is it answered, then a text may be to blame and is searched for;
else it is an outage |
| 400, 422 | the text that is refused is searched for by halving |
| 413, or 400 for the size | the request is halved, and requests stay small for a while |
| 401, 403, 404 and the like | a probe decides: not answered, it is an outage; answered, the text
that is denied is searched for |
| 402, no quota left, 429 again and again | as well, but a text is blamed only if others are
embedded meanwhile |
| an outage | everything fails at once, the health says why, and one probe at growing intervals
finds out when it is over |

Invariants: a text that was answered well is not sent again; no text is refused because of an
outage; nothing that is not finite, of the right length and of length 1 as a vector is ever handed
on.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from livedex.pipeline.embedding.batching import RequestSizeLimit
from livedex.pipeline.embedding.circuit_breaker import CircuitBreaker, ProviderHealth
from livedex.pipeline.embedding.client import EmbeddingClient, always_permitted
from livedex.pipeline.embedding.documents import EmbedCall, EmbedCallContext, TextResult
from livedex.pipeline.embedding.embedder import Embedder, EmbedLimits, TextKind, Vector
from livedex.pipeline.embedding.observer import NullObserver, RequestObserver
from livedex.pipeline.embedding.poison_texts import PoisonTexts
from livedex.pipeline.embedding.provider import CheckedEmbedder
from livedex.pipeline.embedding.query_embedder import QUERY_DEADLINE_S, CachedQueryEmbedder
from livedex.pipeline.embedding.vectors import MAX_DIMENSIONS
from livedex.pipeline.errors import ConfigError, RetryableError
from livedex.pipeline.runtime.clock import Clock


def _nobody(ok: bool, reason: str) -> None:
    """Hear of the health, and do nothing."""


class EmbeddingService:
    """An embedder made dependable.

    Args:
        embedder: the provider; closed by `close`.
        dimensions: the length of vectors that is configured; None takes the model's.
        clock: waits and measures.
        observer: hears of every request.
        on_health: called with (whether it is well, reason) at every change.
        query_deadline_s: the longest a query takes.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        dimensions: int | None = None,
        clock: Clock | None = None,
        observer: RequestObserver | None = None,
        on_health: Callable[[bool, str], None] = _nobody,
        query_deadline_s: float = QUERY_DEADLINE_S,
    ) -> None:
        clock = clock or Clock()
        self._embedder, self._limits = embedder, embedder.limits
        self._provider = CheckedEmbedder(
            embedder, dimensions or embedder.dimensions, observer or NullObserver()
        )
        self._breaker = CircuitBreaker(self._provider.probe, clock, on_health)
        self._line = EmbeddingClient(self._provider, self._breaker, clock, self._limits.concurrency)
        self._around = EmbedCallContext(
            self._line, RequestSizeLimit(self._limits), PoisonTexts(), self._limits, clock
        )
        self._queries = CachedQueryEmbedder(
            self._provider,
            self._breaker,
            clock,
            max_characters=self._limits.max_text_characters,
            deadline_s=query_deadline_s,
        )

    @property
    def model_id(self) -> str:
        """Names the vector space."""
        return self._embedder.model_id

    @property
    def in_process(self) -> bool:
        """Whether embedding costs less than asking who else does it; see `Embedder`."""
        return getattr(self._embedder, "in_process", False) is True

    @property
    def dimensions(self) -> int | None:
        """Length of a vector, as configured or as first answered; None before that."""
        return self._provider.dimensions

    @property
    def limits(self) -> EmbedLimits:
        """The bounds of one request."""
        return self._limits

    @property
    def health(self) -> ProviderHealth:
        """How the provider is, why, and since when."""
        return self._breaker.health

    async def embed_documents(
        self, texts: Sequence[str], *, permit: Callable[[], None] = always_permitted
    ) -> AsyncGenerator[list[TextResult], None]:
        """Turn documents' texts into vectors.

        Args:
            texts: n texts of any size.
            permit: called just before each request; raises OutageError where nothing may be sent
                any more.

        Yields:
            as soon as a request is answered: (index, vector) of its texts, each vector float32 of
            length 1 and shape (dimensions,); or (index, RejectedError) of a text that the model
            never takes. Every index comes once, unless an error is raised.

        Raises:
            OutageError: the provider is away; what was answered before has been handed on, the rest
            is to be asked for again later.
        """
        if not texts:
            return
        self._breaker.admit()
        async with aclosing(EmbedCall(texts, self._around, permit).answers()) as answers:
            async for answer in answers:
                yield answer

    async def embed_query(self, text: str) -> Vector:
        """Turn a query into a vector, past all documents.

        Args:
            text: not blank; the end of it that the model does not take is left out.

        Returns:
            float32 array of shape (dimensions,), of length 1, not to be written to.

        Raises:
            OutageError: the provider is away; raised at once.
            RetryableError: no vector could be had in time.
        """
        return await self._queries.embed(text)

    async def embed_text(self, text: str, kind: TextKind) -> Vector:
        """Turn one text into a vector that nobody stores, in the time of a query.

        Args:
            text: not blank, of at most `limits.max_text_characters`.

        Returns:
            As `embed_query`.

        Raises:
            OutageError: the provider is away; raised at once.
            RetryableError: no vector could be had in time.
        """
        return await self._queries.embed(text, kind)

    async def check(self) -> int:
        """Compare what is configured with what the model gives; once that is known, nothing is
        asked.

        Returns:
            the length of a vector.

        Raises:
            ConfigError: another length than configured, or more than can be stored.
            OutageError: the provider cannot be asked now.
        """
        if self._provider.confirmed and self._provider.dimensions is not None:
            return self._provider.dimensions
        self._breaker.admit()
        try:
            found = await self._provider.measure_dimensions()
        except RetryableError as exc:
            raise self._breaker.open(exc) from exc
        expected = self._provider.dimensions
        if found > MAX_DIMENSIONS:
            raise ConfigError(
                f"the model {self.model_id} gives vectors of length {found}, and at most "
                f"{MAX_DIMENSIONS} can be stored and indexed: choose another "
                "LIVEDEX_EMBEDDER, or an offer of this model whose vectors are shorter"
            )
        if expected != found:
            raise ConfigError(
                f"LIVEDEX_DIMENSIONS is {expected}, but the model {self.model_id} gives "
                f"vectors of length {found}: "
                f"set LIVEDEX_DIMENSIONS={found}, leave it out, or choose another LIVEDEX_EMBEDDER"
            )
        return found

    def stop_sending(self) -> None:
        """Send no documents' texts any more, so that the process can end; requests under way are
        still answered.
        """
        self._line.stop()

    async def close(self) -> None:
        """End what runs in the background, and close the embedder."""
        await self._breaker.close()
        await self._queries.close()
        await self._embedder.close()
