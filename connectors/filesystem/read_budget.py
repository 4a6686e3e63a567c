"""How often a large file that keeps growing is read: every change of a log of 6 MB costs 6 MB, so
it is read less often the more it costs.

Each file may be read `FREE_READS` times at once; after that as many bytes a second as
`BYTES_A_SECOND`, and once in `LONGEST_S` at least. That a file is gone, shorter or another one is
seen at once, since only reading waits. Nothing here looks at a clock: times are handed in,
monotonic, in seconds.
"""

from __future__ import annotations

BYTES_A_SECOND = 131_072
FREE_READS = 3
LONGEST_S = 60.0

_MAX_FILES = 10_000


class ReadBudget:
    """The bytes that were read of late of each file."""

    def __init__(self) -> None:
        self._owed: dict[bytes, tuple[float, int, float]] = {}

    def note(self, path: bytes, size: int, now: float) -> None:
        """A version of this many bytes was read and published."""
        if len(self._owed) >= _MAX_FILES:
            self._owed = {name: owed for name, owed in self._owed.items() if self._left(owed, now)}
        owed = self._owed.get(path)
        most = (FREE_READS - 1) * size + LONGEST_S * BYTES_A_SECOND
        self._owed[path] = (min((self._left(owed, now) if owed else 0.0) + size, most), size, now)

    def wait_s(self, path: bytes, now: float) -> float:
        """Return how many seconds to wait before the file is read again; 0: none."""
        owed = self._owed.get(path)
        if owed is None:
            return 0.0
        return max(0.0, self._left(owed, now) - (FREE_READS - 1) * owed[1]) / BYTES_A_SECOND

    @staticmethod
    def _left(owed: tuple[float, int, float], now: float) -> float:
        return max(0.0, owed[0] - BYTES_A_SECOND * (now - owed[2]))
