"""Waits until an accepted change has ended. One LISTEN connection wakes all waiting requests, and
polling covers missed notifications.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from livedex.pipeline.model import DocumentId, Reader
from livedex.pipeline.store.documents.document_queries import DocumentQueries, SyncState
from livedex.pipeline.store.documents.document_sync import SYNC_ENDED_CHANNEL, sync_ended_payload
from livedex.pipeline.store.postgres.listener import listen_forever

MAX_WAIT_S = 30.0
_POLL_INTERVAL_S = 0.1
_POLL_INTERVAL_LISTENING_S = 0.5  # a superseded version ends without a notification


class SyncWaiter:
    """Waits for changes of documents to end; `open_sync_waiter` opens it.

    Args:
        documents: reads the state of a change.
        url: of the database, for the LISTEN connection, which the first wait opens; None: only
            poll.
    """

    def __init__(self, documents: DocumentQueries, url: str | None = None) -> None:
        self._documents = documents
        self._url = url
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._listener: asyncio.Task[None] | None = None
        self._listening = False

    async def wait(
        self, reader: Reader, document_id: DocumentId, version: int, timeout_s: float
    ) -> SyncState:
        """Wait while a version is pending.

        Args:
            reader: sees `pending` for documents that it may not read.
            document_id: of the document.
            version: of the change.
            timeout_s: maximum seconds, >= 0; 0: return the present state.

        Returns:
            The state; `pending` after the timeout.

        Raises:
            OutageError: the database is unavailable.
        """
        end = asyncio.get_running_loop().time() + min(timeout_s, MAX_WAIT_S)
        key, woken = sync_ended_payload(reader.tenant_id, document_id), asyncio.Event()
        if timeout_s > 0:
            self._listen()
        self._waiting[key].add(woken)
        try:
            while True:
                woken.clear()
                state = await self._documents.sync_state(reader, document_id, version)
                left_s = end - asyncio.get_running_loop().time()
                if state != "pending" or left_s <= 0:
                    return state
                try:
                    async with asyncio.timeout(
                        min(
                            left_s,
                            _POLL_INTERVAL_LISTENING_S if self._listening else _POLL_INTERVAL_S,
                        )
                    ):
                        await woken.wait()
                except TimeoutError:
                    continue
        finally:
            self._waiting[key].discard(woken)
            if not self._waiting[key]:
                del self._waiting[key]

    async def close(self) -> None:
        """Close the LISTEN connection."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)

    def _listen(self) -> None:
        if self._url is not None and self._listener is None:
            listen = listen_forever(
                self._url,
                SYNC_ENDED_CHANNEL,
                self._wake,
                began=lambda: self._set_listening(True),
                ended=lambda: self._set_listening(False),
            )
            self._listener = asyncio.create_task(listen, name="listen for ended changes")

    def _set_listening(self, listening: bool) -> None:
        self._listening = listening

    def _wake(self, key: str) -> None:
        for woken in self._waiting.get(key, ()):
            woken.set()


@asynccontextmanager
async def open_sync_waiter(
    documents: DocumentQueries, url: str | None
) -> AsyncIterator[SyncWaiter]:
    """Open a waiter, and close it at the end of the block.

    Args:
        documents: reads the state of a change.
        url: of the database; None: only poll.
    """
    waiter = SyncWaiter(documents, url)
    try:
        yield waiter
    finally:
        await waiter.close()
