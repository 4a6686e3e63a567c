"""What the pipeline asks of an embedding model. Every provider is a class with these names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

TextKind = Literal["document", "query"]
Vector: TypeAlias = NDArray[np.float32]
"""One vector: shape (dimensions,), finite, of length 1."""
Vectors: TypeAlias = NDArray[np.float32]
"""One row a text: shape (n, dimensions), finite, each row of length 1."""


@dataclass(frozen=True, slots=True)
class EmbedLimits:
    """The bounds of one request.

    Attributes:
        max_texts: texts in a request, >= 1.
        max_characters: code points in a request, >= 1.
        max_text_characters: code points in one text, >= 1.
        concurrency: requests under way at once, >= 1.
    """

    max_texts: int = 256
    max_characters: int = 200_000
    max_text_characters: int = 30_000
    concurrency: int = 4


class Embedder(Protocol):
    """Turns texts into vectors. One call of `embed` is one request to the provider, without
    retries.

    A class may say `in_process = True`: nobody is paid, and a text is embedded faster than it is
    found out who else does it. Then two processes that meet a text at the same time may both embed
    it.
    """

    @property
    def model_id(self) -> str:
        """Names the vector space, e.g. `openai:text-embedding-3-small`."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Length of a vector, or None while nobody has asked the model yet."""
        ...

    @property
    def limits(self) -> EmbedLimits:
        """The bounds of one request."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Turn texts into vectors, in the same order, in one request.

        Args:
            texts: n texts, none of them blank, 1 <= n <= limits.max_texts.
            kind: what the texts are, for models that tell queries from documents.

        Returns:
            float32 array of shape (n, dimensions), finite, each row of length 1.

        Raises:
            RetryableError: silence, 5xx, an answer of the wrong count, order, length or with values
            that are not finite.
            RateLimitedError: the provider asks for patience (429).
            OutageError: refused for a reason that a moment's patience does not change (401, 403,
            404); a probe decides whether a text is to blame.
                `QuotaExhaustedError` of it (402, an exhausted quota) blames a text only if others
                are embedded meanwhile.
            TooLargeError: the provider says that the request is too large.
            RejectedError: any other 4xx.
            Anything else that is raised counts as RetryableError.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...
