"""Adjust faststream-outbox 0.19 where it has no setting; nothing else here touches its internals.

- A worker keeps a connection of its own open for acknowledging. Sixteen idle connections a stage
  are most of what a small server allows, and a worker whose session
  was ended finds that out only with the next row, which then waits for its lease to expire. Here
  acknowledging goes over the client alone, see `acknowledging`.
- After errors the loops wait up to 30 seconds before they connect again, and forget earlier errors
  only after a healthy minute. Here they wait 2 seconds at most.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager

from faststream_outbox.subscriber import usecase
from sqlalchemy.ext.asyncio import AsyncEngine

LONGEST_RECONNECT_S = 2.0


class ConnectionlessSubscriber(usecase.OutboxSubscriber):
    """A subscriber whose workers hold no connection."""

    @property
    def _pooled_connections(self) -> int:
        return 1  # for fetching

    @asynccontextmanager
    async def _open_worker_resources(
        self, engine: AsyncEngine | None
    ) -> AsyncGenerator[Mapping[str, object]]:
        yield {"writer_conn": None}


def patch_subscriber(subscriber: usecase.OutboxSubscriber) -> None:
    """Let the workers of a subscriber hold no connection, and its loops connect again soon.

    Args:
        subscriber: of a broker that is not started yet.
    """
    usecase._BACKOFF_MAX_SECONDS = LONGEST_RECONNECT_S
    subscriber.__class__ = ConnectionlessSubscriber


def fetch_now(subscriber: usecase.OutboxSubscriber) -> Callable[[], None]:
    """Return a function that lets a subscriber look for rows at once, as a notification does."""
    return subscriber._notify_event.set
