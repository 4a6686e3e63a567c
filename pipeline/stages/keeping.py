"""Drafts of documents that are worked on at the same time are kept together: one transaction for many.

While some are written, others gather; nobody waits for company. When a batch fails, it is halved until the one that fails is alone, so
that one bad document costs one document.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from pipeline.errors import OutageError
from pipeline.model import TenantId
from pipeline.store.protocol import Draft, VectorStore

_AT_ONCE = 2  # transactions under way
_MOST_DRAFTS = 32
_MOST_PIECES = 2000

Waiting = tuple[Draft, "asyncio.Future[int | None]"]


class DraftKeeper:
    """Keeps drafts through `VectorStore.keep_drafts`."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._waiting: deque[Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def keep(self, draft: Draft) -> int | None:
        """Keep one; see `VectorStore.keep_drafts` for what comes back and what is raised."""
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((draft, future))
        if len(self._tasks) < _AT_ONCE:
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work(self) -> None:
        while self._waiting:
            await self._keep(self._next())

    def _next(self) -> list[Waiting]:
        """The drafts that wait longest, of one tenant, as many as fit."""
        tenant_id: TenantId = self._waiting[0][0].tenant_id
        batch: list[Waiting] = []
        pieces = 0
        while self._waiting and len(batch) < _MOST_DRAFTS and self._waiting[0][0].tenant_id == tenant_id:
            pieces += len(self._waiting[0][0].pieces)
            if batch and pieces > _MOST_PIECES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _keep(self, batch: Sequence[Waiting]) -> None:
        try:
            found = await self._store.keep_drafts([draft for draft, _ in batch])
        except Exception as exc:  # noqa: BLE001  # whoever waits gets it
            if len(batch) == 1 or isinstance(exc, OutageError):
                for _, future in batch:
                    if not future.done():
                        future.set_exception(exc)
                return
            middle = len(batch) // 2
            await self._keep(batch[:middle])
            await self._keep(batch[middle:])
        else:
            for (_, future), new in zip(batch, found, strict=True):
                if not future.done():
                    future.set_result(new)
