"""What many callers ask for at the same time, done in one go.

While one batch is under way, others gather; nobody waits for company. When a batch fails, it is
halved until the one that fails is alone, so that one bad document costs one document. An outage is
everybody's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from livedex.pipeline.errors import OutageError

T = TypeVar("T")
R = TypeVar("R")
Work: TypeAlias = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]


def _alike(item: object) -> Hashable:
    return None


class MicroBatcher(Generic[T, R]):
    """Does something for many.

    Args:
        work: does it; an answer for each, in their order, where an exception is raised for that one
            alone.
        group: items of one batch have this in common.
        identity: two items with the same one are never in one batch; default: all are different.
        size: how much of `most_size` an item takes.
        most: items of a batch, >= 1.
        at_once: batches under way, >= 1.
    """

    def __init__(
        self,
        work: Work[T, R],
        *,
        group: Callable[[T], Hashable] = _alike,
        identity: Callable[[T], Hashable] = id,
        size: Callable[[T], int] = lambda _: 1,
        most: int = 32,
        most_size: int = 2000,
        at_once: int = 1,
    ) -> None:
        self._work_on = work
        self._group, self._identity, self._size = group, identity, size
        self._most, self._most_size, self._at_once = most, most_size, at_once
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way = 0

    async def __call__(self, item: T) -> R:
        """The answer for one; raises what the work does."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._under_way < self._at_once:
            self._under_way += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                if batch := self._next():
                    await self._do(batch)
        finally:
            # here, not when the task is seen to be done: nobody may come in between and start none
            self._under_way -= 1

    def _next(self) -> list[tuple[T, asyncio.Future[R]]]:
        """Return the oldest waiting items of one group, as many as fit, without cancelled ones."""
        batch: list[tuple[T, asyncio.Future[R]]] = []
        left: deque[tuple[T, asyncio.Future[R]]] = deque()
        seen: set[Hashable] = set()
        group: Hashable = None
        size = 0
        while self._waiting and len(batch) < self._most:
            item, future = self._waiting.popleft()
            if future.done():
                continue
            if not batch:
                group = self._group(item)
            size += self._size(item)
            if batch and size > self._most_size:
                left.append((item, future))
                break
            identity = self._identity(item)
            if identity in seen or self._group(item) != group:
                size -= self._size(item)
                left.append((item, future))
            else:
                batch.append((item, future))
            seen.add(identity)
        self._waiting.extendleft(reversed(left))
        return batch

    async def _do(self, batch: Sequence[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            answers = await self._work_on([item for item, _ in batch])
        except Exception as exc:  # noqa: BLE001  # whoever waits gets it
            if len(batch) > 1 and not isinstance(exc, OutageError):
                middle = len(batch) // 2
                await self._do(batch[:middle])
                await self._do(batch[middle:])
                return
            answers = [exc] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
