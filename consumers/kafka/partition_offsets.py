"""What a window has of one partition: which offsets were read, which of them have ended, and what
may be committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

_MOST_JUMPS = 100


@dataclass(slots=True)
class PartitionOffsets:
    """What was delivered of one partition.

    Attributes:
        log: counts the topics of this name; one that was made again is another log.
        taken: offsets in the order of delivery, from the first that has not ended on.
        ended: of these, those that have.
        highest: delivered; what is not above it is in the window already.
        gaps: ranges of offsets below it that were not delivered, oldest first, since they were
            asked for.
        commit: the offset to commit; None while nothing has ended.
        committed: the offset committed last.
        open: whether new work may begin.
    """

    log: int = 0
    taken: deque[int] = field(default_factory=deque)
    ended: set[int] = field(default_factory=set)
    highest: int = -1
    gaps: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=_MOST_JUMPS))
    commit: int | None = None
    committed: int | None = None
    open: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, offset: int) -> None:
        """Note that a record was delivered; its offset is above the highest."""
        self.skip_to(offset)
        self.highest = offset
        self.taken.append(offset)

    def skip_to(self, offset: int) -> None:
        """Note that nothing is delivered before an offset."""
        if offset > self.highest + 1:
            self.gaps.append((self.highest + 1, offset))
        self.highest = max(self.highest, offset - 1)

    def end(self, offset: int) -> None:
        """Note that a record has its outcome."""
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
