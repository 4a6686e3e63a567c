"""Check that the work of this process makes progress: a consumer can be up and stalled."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

LivenessCheck: TypeAlias = Callable[[], str | None]


class LivenessChecks:
    """Holds the checks that each kind of work registers."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, LivenessCheck]] = []

    def watch(self, check: LivenessCheck, name: str = "work") -> None:
        """Register a check.

        Args:
            check: returns the problem; None while there is progress.
            name: of the work.
        """
        self._checks.append((name, check))

    @property
    def problems(self) -> dict[str, str]:
        """Return the present problems by the name of the work."""
        return {name: problem for name, check in self._checks if (problem := check()) is not None}
