"""Whether what runs in this process gets on. That the process answers is not enough: a consumer can be up and stand still."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Check: TypeAlias = Callable[[], str | None]


class Liveness:
    """What stands still, by checks that whoever does the work puts here."""

    def __init__(self) -> None:
        self._checks: list[Check] = []

    def watch(self, check: Check) -> None:
        """Ask this from now on.

        Args:
            check: what stands still, in words; None while it gets on.
        """
        self._checks.append(check)

    @property
    def problems(self) -> list[str]:
        """All that stands still now."""
        return [problem for check in self._checks if (problem := check()) is not None]
