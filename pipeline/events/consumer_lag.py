"""Pending events of the stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StageLag:
    """Pending events of a stage.

    Attributes:
        waiting: number of events, including those in processing.
        oldest_s: age of the oldest event in seconds; 0 without one.
    """

    waiting: int = 0
    oldest_s: float = 0.0


class ConsumerLag(Protocol):
    """Reads pending events from the broker. Every method may raise OutageError."""

    async def waiting(self) -> dict[str, StageLag]:
        """Return the pending events by stage."""
        ...

    async def mark(self) -> object:
        """Return a mark after all changes accepted so far."""
        ...

    async def left(self, mark: object) -> int:
        """Return the number of changes before a mark that the chunk stage has not processed.

        Args:
            mark: of `mark`.
        """
        ...
