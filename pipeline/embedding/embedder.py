"""The protocol of embedding providers, and checks of texts before they are sent."""

from __future__ import annotations

import unicodedata
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
    """Bounds of one request.

    Attributes:
        max_texts: texts in a request, >= 1.
        max_characters: code points in a request, >= 1.
        max_text_characters: code points in one text, >= 1.
        concurrency: concurrent requests, >= 1.
    """

    max_texts: int = 256
    max_characters: int = 200_000
    max_text_characters: int = 30_000
    concurrency: int = 4


class Embedder(Protocol):
    """Turns texts into vectors. One call of `embed` is one request to the provider, without
    retries.

    A class may set `in_process = True`: embedding is free, and faster than coordination with other
    processes. Then two processes may embed the same text.
    """

    @property
    def model_id(self) -> str:
        """Return the name of the vector space, e.g. `openai:text-embedding-3-small`."""
        ...

    @property
    def dimensions(self) -> int | None:
        """Return the length of a vector, or None before the first request."""
        ...

    @property
    def limits(self) -> EmbedLimits:
        """Return the bounds of one request."""
        ...

    async def embed(self, texts: Sequence[str], *, kind: TextKind) -> Vectors:
        """Embed texts in one request, in the same order.

        Args:
            texts: n texts, none of them blank, 1 <= n <= limits.max_texts.
            kind: for models that distinguish queries from documents.

        Returns:
            float32 array of shape (n, dimensions), finite, each row of length 1.

        Raises:
            RetryableError: a timeout, a 5xx status, or an invalid response: wrong count, order or
                length, or values that are not finite. Any other exception counts as this one.
            RateLimitedError: the provider limits the rate (429).
            OutageError: denied for a reason that a short wait does not change (401, 403, 404); a
                probe decides whether a text is at fault. After its subclass
                `QuotaExhaustedError` (402, an exhausted quota) a text is rejected only if others
                are embedded meanwhile.
            TooLargeError: the provider says that the request is too large.
            RejectedError: any other 4xx status.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


def valid_unicode(text: str) -> str:
    """Return the text with lone surrogates replaced by U+FFFD: tokenizers and JSON reject them."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def is_blank(text: str) -> bool:
    """Return whether a text has no visible character: only white space, controls and zero-width
    characters.
    """
    return all(unicodedata.category(character) in _INVISIBLE for character in text)


_INVISIBLE = frozenset({"Zs", "Zl", "Zp", "Cc", "Cf"})
