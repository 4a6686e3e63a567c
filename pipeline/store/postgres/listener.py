"""PostgreSQL LISTEN on a dedicated connection, with automatic reconnects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from livedex.pipeline.store.postgres.connection import connect
from livedex.pipeline.store.postgres.errors import outage_reason

log = logging.getLogger(__name__)

_RECONNECT_DELAY_S = 1.0


@asynccontextmanager
async def listen(
    url: str, channel: str, told: Callable[[str], None], began: Callable[[], None]
) -> AsyncIterator[None]:
    """Listen to a channel until the end of the block.

    Args:
        url: of the database.
        channel: of NOTIFY.
        told: called with the payload of each notification.
        began: called whenever listening begins; earlier notifications may have been missed.
    """
    task = asyncio.create_task(
        listen_forever(url, channel, told, began), name=f"listen to {channel}"
    )
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def listen_forever(
    url: str,
    channel: str,
    told: Callable[[str], None],
    began: Callable[[], None],
    ended: Callable[[], None] = lambda: None,
) -> None:
    """Listen to a channel until cancelled.

    Args:
        url: of the database.
        channel: of NOTIFY.
        told: called with the payload of each notification.
        began: called whenever listening begins; earlier notifications may have been missed.
        ended: called whenever the connection has ended.
    """
    while True:
        try:
            await _listen_once(url, channel, told, began)
        except Exception as exc:
            if outage_reason(exc) is None:
                log.exception("listening to %s failed unexpectedly; reconnecting", channel)
        finally:
            ended()
        await asyncio.sleep(_RECONNECT_DELAY_S)


async def _listen_once(
    url: str, channel: str, told: Callable[[str], None], began: Callable[[], None]
) -> None:
    """Pass on notifications until the connection ends."""
    ended = asyncio.Event()
    connection = await connect(url, application_name="livedex-listening")
    try:
        connection.add_termination_listener(lambda _: ended.set())
        await connection.add_listener(
            channel, lambda _connection, _pid, _channel, payload: told(str(payload))
        )
        began()
        await ended.wait()
    finally:
        await asyncio.shield(connection.close(timeout=2))
