"""How far the first load of the folders is, as answers tell it until it has ended."""

from __future__ import annotations

from typing import Protocol


class InitialLoadProgress(Protocol):
    """A first load that is measured; `livedex.app.initial_load.InitialLoad` is one.

    Attributes:
        found: documents found.
        done: of these, how many are indexed or have ended otherwise.
        is_over: nothing changes any more.
    """

    @property
    def found(self) -> int: ...

    @property
    def done(self) -> int: ...

    @property
    def is_over(self) -> bool: ...


class InitialLoadReport:
    """What to tell of the first load; nothing, where none is watched."""

    def __init__(self) -> None:
        self._load: InitialLoadProgress | None = None
        self._is_expected = False

    def expect(self) -> None:
        """Say that a load is about to begin."""
        self._is_expected = True

    def watch(self, load: InitialLoadProgress) -> None:
        """Tell of a load from now on, until it is over."""
        self._load = load

    def shown(self) -> dict[str, int] | None:
        """Return `{"done": n, "found": n}`; None once the load is over, and where there is none."""
        if self._load is None:
            return {"done": 0, "found": 0} if self._is_expected else None
        if self._load.is_over:
            return None
        return {"done": self._load.done, "found": self._load.found}
