"""Track offsets of one partition: in flight, completed, committable."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

_MAX_GAPS = 100


@dataclass(slots=True)
class PartitionOffsets:
    """Offsets of one partition.

    Attributes:
        log: number of the topic of this name; a recreated topic is another log.
        taken: delivered offsets, from the first incomplete one.
        ended: completed offsets among these.
        highest: delivered offset; lower ones are known.
        gaps: ranges of offsets below it that were not delivered, oldest first, since the last
            `pop_gaps`.
        commit: the offset to commit; None before the first completed record.
        committed: the last committed offset.
        open: whether new records may start.
    """

    log: int = 0
    taken: deque[int] = field(default_factory=deque)
    ended: set[int] = field(default_factory=set)
    highest: int = -1
    gaps: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MAX_GAPS))
    commit: int | None = None
    committed: int | None = None
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, offset: int) -> None:
        """Add a delivered record.

        Args:
            offset: above `highest`.
        """
        self.skip_to(offset)
        self.highest = offset
        self.taken.append(offset)

    def skip_to(self, offset: int) -> None:
        """Record that nothing is delivered before an offset.

        Args:
            offset: of the next record.
        """
        if offset > self.highest + 1:
            self.gaps.append((self.highest + 1, offset))
        self.highest = max(self.highest, offset - 1)

    def end(self, offset: int) -> None:
        """Record that a record is complete.

        Args:
            offset: of the record.
        """
        self.ended.add(offset)
        while self.taken and self.taken[0] in self.ended:
            done = self.taken.popleft()
            self.ended.discard(done)
            self.commit = done + 1

    def pop_gaps(self) -> list[tuple[int, int | None]]:
        """Return the ranges of offsets that were not delivered, each once; the last one has no end
        yet.
        """
        found = [*self.gaps, (self.highest + 1, None)]
        self.gaps.clear()
        return found
