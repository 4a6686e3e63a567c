"""What waits on the broker, as an operator asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StageLag:
    """The backlog of a stage.

    Attributes:
        waiting: events, those being worked on included.
        oldest_s: age of the oldest in seconds; 0 when there is none.
    """

    waiting: int = 0
    oldest_s: float = 0.0


class ConsumerLag(Protocol):
    """Questions to the broker. Every method may raise OutageError."""

    async def waiting(self) -> dict[str, StageLag]:
        """Each stage's backlog, by the stage's name."""
        ...

    async def mark(self) -> object:
        """The place up to which changes were accepted until now."""
        ...

    async def left(self, mark: object) -> int:
        """Events up to a mark of which the documents do not know yet."""
        ...
