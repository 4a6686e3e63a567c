"""When a path that was hinted at is looked at, and when what is seen there counts as finished.

A hint says no more than that something may have happened: the path is looked at, and what stands
there decides. A file is at rest when nobody has it open for writing and its change time, which is
the kernel's own clock, lies `QUIET_S` back; so its fingerprint is certain too, since no later write
can carry the same time. Where the system does not tell who writes, it must lie back longer. A file
that is saved over and over gets more and more time; a file that never rests is published every
`max_delay_s` all the same.

Nothing here looks at the disk or at a clock: times are handed in, monotonic and in seconds.
"""

from __future__ import annotations

import heapq
import math
import os
from dataclasses import dataclass, field

QUIET_S = 0.015
UNKNOWN_WRITER_QUIET_S = 0.3
"""Where the system does not tell whether somebody writes, or its clock and the disk's differ."""
EMPTY_QUIET_S = 1.0
"""A file that was not empty and is: mostly the first half of a save."""
ABSENT_QUIET_S = 0.1
"""A file that is gone: mostly to come back as the second half of a save."""
MAX_DELAY_S = 3.0

_AGAIN_S = 0.03

# Each version of a file warms it by 1, or by more where it followed at once and so the one before
# came too early; warmth fades.
# Below _HOT is what a person can do who saves and looks, four times a second and on; above are
# programs.
_BACKOFF_THRESHOLD = 14.0
_RATE_DECAY_S = 2.0
_RAPID_REWRITE_S = 0.08
_RAPID_REWRITE_WEIGHT = 5.0


@dataclass(slots=True)
class PendingPath:
    """A path that was hinted at.

    Attributes:
        first: since when it waits.
        due: when it is looked at next.
        absent_since: since when it is absent; None while it is there.
        seen: what `stat` said at the last look, and `seen_since` since when that is so.
    """

    path: bytes
    first: float
    due: float
    absent_since: float | None = None
    seen: tuple[int, ...] | None = None
    seen_since: float = 0.0

    def note(self, kind: str, found: os.stat_result | None, now: float) -> None:
        """Keep what was seen at a look, for the next one."""
        seen = (
            None
            if found is None
            else (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        )
        if seen != self.seen:
            self.seen, self.seen_since = seen, now
        if kind != "absent":
            self.absent_since = None
        elif self.absent_since is None:
            self.absent_since = now


def remaining_quiet_s(
    found: os.stat_result,
    *,
    now_ns: int,
    quiet_s: float,
    unchanged_s: float,
    emptied: bool,
    writing: bool | None,
) -> float:
    """How many seconds a file must still be left alone; 0 when it is at rest.

    Args:
        found: the status of the file.
        now_ns: wall clock, nanoseconds.
        quiet_s: how long it must have rested.
        unchanged_s: how long it has been seen unchanged, for disks with a clock of their own.
        emptied: whether it is empty and was not.
        writing: whether somebody has it open for writing; None where that is not known.
    """
    age_s = (now_ns - found.st_ctime_ns) / 1e9
    if writing:
        return min(max(age_s, quiet_s), 0.25)
    if writing is None:
        quiet_s = max(quiet_s, UNKNOWN_WRITER_QUIET_S)
    if emptied:
        quiet_s = max(quiet_s, EMPTY_QUIET_S)
    if age_s < 0:
        age_s, quiet_s = unchanged_s, max(quiet_s, UNKNOWN_WRITER_QUIET_S)
    return max(quiet_s - age_s, 0.0)


@dataclass
class Debouncer:
    """The paths that wait, each once however often it is hinted at."""

    max_delay_s: float = MAX_DELAY_S
    _waiting: dict[bytes, PendingPath] = field(default_factory=dict)
    _in_work: dict[bytes, PendingPath] = field(default_factory=dict)
    _order: list[tuple[float, bytes]] = field(default_factory=list)
    _heat: dict[bytes, tuple[float, float]] = field(default_factory=dict)

    def schedule(self, path: bytes, now: float, *, delay_s: float = 0.0) -> None:
        """Something may have happened at a path: it is looked at after `delay_s`; where it waits
        already, soon at the latest.
        """
        waiting = self._waiting.get(path)
        if waiting is None:
            self._push(PendingPath(path, now, now + delay_s))
        elif waiting.due > now + _AGAIN_S:
            waiting.due = now + _AGAIN_S
            self._push(waiting)

    def reschedule(self, waiting: PendingPath, now: float, delay_s: float) -> None:
        """Look again after a while."""
        newer = self._waiting.get(waiting.path)
        waiting.due = now + delay_s if newer is None else min(newer.due, now + delay_s)
        self._in_work.pop(waiting.path, None)
        self._push(waiting)

    def done(self, waiting: PendingPath) -> None:
        """It was dealt with; a hint that came meanwhile stays."""
        self._in_work.pop(waiting.path, None)

    def take(self, now: float, most: int) -> list[PendingPath]:
        """What is due, the longest due first; `later` or `done` must follow for each."""
        taken: list[PendingPath] = []
        while self._order and self._order[0][0] <= now and len(taken) < most:
            due, path = heapq.heappop(self._order)
            waiting = self._waiting.get(path)
            if waiting is None or waiting.due != due:
                continue
            del self._waiting[path]
            self._in_work[path] = waiting
            taken.append(waiting)
        return taken

    def next_due(self) -> float:
        """When something is due next; infinite when nothing waits."""
        while self._order:
            due, path = self._order[0]
            waiting = self._waiting.get(path)
            if waiting is not None and waiting.due == due:
                return due
            heapq.heappop(self._order)
        return math.inf

    def is_pending(self, path: bytes) -> bool:
        """Whether it waits or is being dealt with."""
        return path in self._waiting or path in self._in_work

    def pending(self) -> set[bytes]:
        """All that waits or is being dealt with."""
        return set(self._waiting) | set(self._in_work)

    def clear(self) -> None:
        """Forget what waits; what is being dealt with goes on."""
        self._waiting.clear()
        self._order.clear()

    def is_overdue(self, waiting: PendingPath, now: float) -> bool:
        """Whether it has waited so long that it is published as it is."""
        return now - waiting.first >= self.max_delay_s

    def record_published(self, path: bytes, now: float) -> None:
        """A version of it was published."""
        if len(self._heat) > 10_000:
            self._heat = {
                name: (heat, at)
                for name, (heat, at) in self._heat.items()
                if now - at < 5 * _RATE_DECAY_S
            }
        at_once = path in self._heat and now - self._heat[path][1] < _RAPID_REWRITE_S
        self._heat[path] = (
            self._heat_of(path, now) + (_RAPID_REWRITE_WEIGHT if at_once else 1.0),
            now,
        )

    def quiet_s(self, path: bytes, now: float) -> float:
        """How long this file must have rested: longer the more often it was published of late."""
        heat = self._heat_of(path, now)
        return (
            QUIET_S
            if heat < _BACKOFF_THRESHOLD
            else min(0.2 * 2.0 ** min((heat - _BACKOFF_THRESHOLD) / 2, 30.0), self.max_delay_s)
        )

    def _heat_of(self, path: bytes, now: float) -> float:
        heat, at = self._heat.get(path, (0.0, now))
        return heat * math.exp((at - now) / _RATE_DECAY_S)

    def _push(self, waiting: PendingPath) -> None:
        self._waiting[waiting.path] = waiting
        heapq.heappush(self._order, (waiting.due, waiting.path))
