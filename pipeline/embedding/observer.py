"""What the embedding service tells about its work, for metrics."""

from __future__ import annotations

from typing import Literal, Protocol

RequestOutcome = Literal["ok", "retry", "rejected", "outage"]


class RequestObserver(Protocol):
    """Hears of every request."""

    def embedded(self, texts: int, characters: int) -> None:
        """So many texts of documents were answered with vectors."""
        ...

    def requested(self, outcome: RequestOutcome) -> None:
        """A request ended."""
        ...


class NullObserver:
    """An observer that does not look."""

    def embedded(self, texts: int, characters: int) -> None:
        """Nothing."""

    def requested(self, outcome: RequestOutcome) -> None:
        """Nothing."""
