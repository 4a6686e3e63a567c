"""One request to the provider: verified, counted, translated.

Everything that is sent goes through here.
"""

from __future__ import annotations

from collections.abc import Sequence

from livedex.pipeline.embedding.embedder import Embedder, TextKind, Vectors
from livedex.pipeline.embedding.observer import RequestObserver
from livedex.pipeline.embedding.provider_errors import COMPONENT
from livedex.pipeline.embedding.provider_messages import redact
from livedex.pipeline.embedding.vectors import unit_vectors
from livedex.pipeline.errors import LivedexError, OutageError, RejectedError, RetryableError

PROBE_TEXT = "livedex"
"""What is sent to learn whether the provider works: a text that no model refuses."""


class CheckedEmbedder:
    """An embedder whose answers are not believed.

    Args:
        embedder: asked.
        dimensions: the length every vector must have; None takes that of the first answer.
        observer: hears of every request.

    Attributes:
        confirmed: whether a vector of that length was answered.
    """

    def __init__(
        self, embedder: Embedder, dimensions: int | None, observer: RequestObserver
    ) -> None:
        self._embedder, self._observer = embedder, observer
        self.confirmed = False
        self._dimensions = dimensions

    @property
    def dimensions(self) -> int | None:
        """Length of a vector, or None while it is not known."""
        return self._dimensions

    async def ask(self, texts: Sequence[str], kind: TextKind) -> Vectors:
        """Send texts in one request.

        Returns:
            float32 array of shape (n, dimensions), finite, each row of length 1.

        Raises:
            As `Embedder.embed`, whatever the embedder answers.
        """
        vectors = await self._ask(texts, kind, self._dimensions)
        self._dimensions, self.confirmed = vectors.shape[1], True
        if kind == "document":
            self._observer.embedded(len(texts), sum(map(len, texts)))
        return vectors

    async def probe(self) -> None:
        """Ask whether the provider works.

        Raises:
            RetryableError: it does not, for whatever reason.
        """
        try:
            await self.ask([PROBE_TEXT], "query")
        except RejectedError as exc:
            raise _even_a_probe(exc) from exc

    async def measure_dimensions(self) -> int:
        """The length of the vectors that the model gives, whatever is configured.

        Raises:
            RetryableError: it cannot be asked now.
        """
        try:
            found: int = (await self._ask([PROBE_TEXT], "query", None)).shape[1]
        except RejectedError as exc:
            raise _even_a_probe(exc) from exc
        if self._dimensions in (None, found):
            self._dimensions, self.confirmed = found, True
        return found

    async def _ask(self, texts: Sequence[str], kind: TextKind, dimensions: int | None) -> Vectors:
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
        # of a class that somebody else wrote: nothing is known of it but that there are no vectors
        except Exception as exc:
            self._observer.requested("retry")
            raise RetryableError(
                f"the embedder failed: {type(exc).__name__}: {redact(str(exc), texts)}".rstrip(": ")
            ) from exc
        self._observer.requested("ok")
        return vectors


def _even_a_probe(refused: RejectedError) -> OutageError:
    return OutageError(COMPONENT, f"even a probe is refused: {refused}")
