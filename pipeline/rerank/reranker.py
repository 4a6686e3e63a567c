"""What a reranker is, whichever provider it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Reranker(Protocol):
    """Scores texts for a query."""

    @property
    def model_id(self) -> str:
        """The name of the model, with its provider."""
        ...

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each text, the greater the more relevant.

        Raises:
            RetryableError, OutageError: no usable answer in time.
        """
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
