"""Whether what runs in this process gets on.

That the process answers is not enough: a consumer can be up and stand still.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

LivenessCheck: TypeAlias = Callable[[], str | None]


class LivenessChecks:
    """What stands still, by checks that whoever does the work puts here."""

    def __init__(self) -> None:
        self._checks: list[tuple[str, LivenessCheck]] = []

    def watch(self, check: LivenessCheck, name: str = "work") -> None:
        """Ask this from now on.

        Args:
            check: what stands still, in words; None while it gets on.
            name: of what is checked, for everybody.
        """
        self._checks.append((name, check))

    @property
    def problems(self) -> dict[str, str]:
        """What stands still now, in words, by its name."""
        return {name: problem for name, check in self._checks if (problem := check()) is not None}
