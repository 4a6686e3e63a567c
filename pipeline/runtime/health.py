"""Hold what this process knows of the components it works with; the copy in the database follows.

Health lives here first: a process whose database takes no writes must be able to say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

ReportHealth: TypeAlias = Callable[[str, str | None], None]
"""Called with a component and why it is unavailable, or None once it works."""


class ProcessHealth:
    """The components that this process finds unavailable.

    Args:
        on_change: called with a component and its reason, or None, at every report.
    """

    def __init__(self, on_change: ReportHealth = lambda component, reason: None) -> None:
        self._on_change = on_change
        self._down: dict[str, str] = {}

    def __call__(self, component: str, reason: str | None) -> None:
        """Record that a component is unavailable, or works again.

        Args:
            component: of this process.
            reason: short, without ids and names; None: it works.
        """
        if reason is None:
            self._down.pop(component, None)
        else:
            self._down[component] = reason
        self._on_change(component, reason)

    @property
    def down(self) -> Mapping[str, str]:
        """Return the reason of each component that is unavailable."""
        return dict(self._down)
