"""Changes that have to be looked up: what a sender told is not all that happened, and its API
knows the rest.
"""

from __future__ import annotations

from typing import Protocol

from livedex.pipeline.events.event import Changed, Event


class ChangeLister(Protocol):
    """Looks up changes, and accepts each that is found."""

    async def follow(self, event: Event[Changed]) -> None:
        """Returns once every change that was found is accepted; repetition does no harm.

        Args:
            event: whose content says what to look up.

        Raises:
            OutageError, RetryableError: not now.
            RejectedError: it cannot be found out; what to do about it.
        """
        ...
