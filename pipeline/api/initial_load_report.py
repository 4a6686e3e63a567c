"""Progress of the initial load of the watched folders, which responses contain until it ends."""

from __future__ import annotations

from typing import Protocol


class InitialLoadProgress(Protocol):
    """The progress of an initial load; `livedex.app.initial_load.InitialLoad` implements it."""

    @property
    def found(self) -> int:
        """Return the number of documents found so far."""
        ...

    @property
    def done(self) -> int:
        """Return the number of them that are indexed or have no text."""
        ...

    @property
    def is_over(self) -> bool:
        """Return whether the load has ended."""
        ...


class InitialLoadReport:
    """The progress of the initial load for responses; None without watched folders."""

    def __init__(self) -> None:
        self._load: InitialLoadProgress | None = None
        self._is_expected = False

    def expect(self) -> None:
        """Announce that a load is about to begin."""
        self._is_expected = True

    def watch(self, load: InitialLoadProgress) -> None:
        """Report the progress of a load until it is over."""
        self._load = load

    def shown(self) -> dict[str, int] | None:
        """Return `{"done": n, "found": n}`; None: there is no load, or it is over."""
        if self._load is None:
            return {"done": 0, "found": 0} if self._is_expected else None
        if self._load.is_over:
            return None
        return {"done": self._load.done, "found": self._load.found}
