"""Batch concurrent calls into one.

A call is processed at once if no batch is in flight; calls that arrive meanwhile form the next
batch. `MicroBatcher` calls a function that returns all results of a batch; if it fails, the batch
is halved until the failing item is alone, so that one bad document costs one document.
`StreamingMicroBatcher` calls a function that delivers the results one by one, and takes items from
their owners in turn. An outage fails the whole batch.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeAlias, TypeVar

from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.runtime.fair_queue import FairQueue

T = TypeVar("T")
R = TypeVar("R")
Work: TypeAlias = Callable[[Sequence[T]], Awaitable[Sequence[R | Exception]]]
_Entry: TypeAlias = tuple[T, asyncio.Future[R]]


def _same_group(item: object) -> Hashable:
    return None


async def process_halving(
    work: Work[T, R], items: Sequence[T]
) -> AsyncGenerator[tuple[int, Sequence[R | Exception]], None]:
    """Process items in one batch; if that fails, halve it until the failing item is alone.

    Args:
        work: returns a result for each item, in order.
        items: of the batch, at least one.

    Yields:
        an offset into `items`, and the results or errors from there on.
    """
    pending = deque([(0, items)])
    while pending:
        offset, part = pending.popleft()
        try:
            results = await work(part)
        except Exception as exc:  # noqa: BLE001 - raised for the callers
            if len(part) == 1 or isinstance(exc, OutageError):
                yield offset, [exc] * len(part)
                continue
            middle = len(part) // 2
            pending.extendleft([(offset + middle, part[middle:]), (offset, part[:middle])])
        else:
            yield offset, results


class _Workers:
    """Runs at most `max_concurrent` workers, each until nothing is pending."""

    def __init__(self, max_concurrent: int) -> None:
        self._max_concurrent, self._running = max_concurrent, 0
        self.tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start a worker, unless enough of them run."""
        if self._running < self._max_concurrent:
            self._running += 1
            self.spawn(self._run(work))

    def spawn(self, work: Awaitable[None]) -> None:
        """Run something beside the workers."""
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def join(self) -> None:
        """Wait until nothing runs."""
        while self.tasks:
            await asyncio.wait(set(self.tasks))

    def cancel(self) -> None:
        """Cancel everything that runs."""
        for task in self.tasks:
            task.cancel()

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        finally:
            # before the task is done: a call in between must see that no worker runs
            self._running -= 1


class MicroBatcher(Generic[T, R]):
    """Batches calls.

    Args:
        work: processes a batch; returns a result for each item, in order. An exception among the
            results is raised for its item alone.
        group: all items of a batch have the same group.
        identity: two items with the same identity are never in one batch; by default all differ.
        size: how much of `max_size` an item takes.
        max_items: items of a batch, >= 1.
        max_size: total size of a batch; an item above it is a batch of its own.
        max_concurrent: batches in flight, >= 1.
    """

    def __init__(
        self,
        work: Work[T, R],
        *,
        group: Callable[[T], Hashable] = _same_group,
        identity: Callable[[T], Hashable] = id,
        size: Callable[[T], int] = lambda _: 1,
        max_items: int = 32,
        max_size: int = 2000,
        max_concurrent: int = 1,
    ) -> None:
        self._work = work
        self._group, self._identity, self._size = group, identity, size
        self._max_items, self._max_size = max_items, max_size
        self._pending: deque[_Entry[T, R]] = deque()
        self._workers = _Workers(max_concurrent)

    async def __call__(self, item: T) -> R:
        """Return the result of one item; raises what `work` raises for it."""
        return await self.submit(item)

    def submit(self, item: T) -> asyncio.Future[R]:
        """Return the future result of one item; cancelling it before its batch starts drops the
        item.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.append((item, future))
        self._workers.start(self._process_pending)
        return future

    async def _process_pending(self) -> None:
        while self._pending:
            if batch := self._next_batch():
                await self._process(batch)

    def _next_batch(self) -> list[_Entry[T, R]]:
        """Return the oldest pending items of one group, as many as fit, without cancelled ones."""
        batch: list[_Entry[T, R]] = []
        skipped: deque[_Entry[T, R]] = deque()
        seen: set[Hashable] = set()
        group: Hashable = None
        size = 0
        while self._pending and len(batch) < self._max_items:
            item, future = self._pending.popleft()
            if future.done():
                continue
            if not batch:
                group = self._group(item)
            size += self._size(item)
            if batch and size > self._max_size:
                skipped.append((item, future))
                break
            identity = self._identity(item)
            if identity in seen or self._group(item) != group:
                size -= self._size(item)
                skipped.append((item, future))
            else:
                batch.append((item, future))
            seen.add(identity)
        self._pending.extendleft(reversed(skipped))
        return batch

    async def _process(self, batch: Sequence[_Entry[T, R]]) -> None:
        async for offset, results in process_halving(self._work, [item for item, _ in batch]):
            for index, result in enumerate(results, offset):
                _resolve(batch[index][1], result)


class StreamingBatch(Generic[T, R]):
    """A batch whose results are delivered one by one.

    Attributes:
        items: of the batch.
    """

    def __init__(self, entries: Sequence[_Entry[T, R]], slot_timeout_s: float) -> None:
        self.items = [item for item, _ in entries]
        self._futures = [future for _, future in entries]
        self._slot_timeout_s = slot_timeout_s
        self._slot_released = asyncio.Event()

    @property
    def unresolved(self) -> list[int]:
        """Return the indexes of items without a result."""
        return [index for index, future in enumerate(self._futures) if not future.done()]

    def resolve(self, index: int, result: R | Exception) -> None:
        """Deliver the result of an item."""
        future = self._futures[index]
        _resolve(future, result)
        if isinstance(result, Exception):
            future.exception()  # all callers may have stopped waiting: mark it as retrieved

    def fail_unresolved(self, error: Exception) -> None:
        """Deliver an error to all items without a result."""
        for index in self.unresolved:
            self.resolve(index, error)

    def release_slot(self) -> None:
        """Let the next batch start while this one continues."""
        self._slot_released.set()

    async def wait_slot(self) -> None:
        """Wait until the slot is released, or for the slot timeout."""
        try:
            async with asyncio.timeout(self._slot_timeout_s):
                await self._slot_released.wait()
        except TimeoutError:
            return


class StreamingMicroBatcher(Generic[T, R]):
    """Batches calls whose results come one by one; takes items from their owners in turn.

    A caller that stops waiting does not cancel its item: other callers may share the future.

    Args:
        work: processes a batch; resolves each item, and releases the slot as soon as the next batch
            may start. Items without a result at its end fail.
        owner: of an item.
        max_items: returns the items of the next batch, >= 1.
        max_concurrent: batches that hold a slot, >= 1.
        slot_timeout_s: seconds after which a batch loses its slot; a batch that isolates a failing
            item must not delay the others.
        delay: awaited before the first batch after a pause, so that concurrent calls share it.
    """

    def __init__(
        self,
        work: Callable[[StreamingBatch[T, R]], Awaitable[None]],
        *,
        owner: Callable[[T], Hashable],
        max_items: Callable[[], int],
        max_concurrent: int,
        slot_timeout_s: float,
        delay: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._work, self._max_items, self._delay = work, max_items, delay
        self._slot_timeout_s = slot_timeout_s
        self._pending: FairQueue[_Entry[T, R]] = FairQueue(lambda entry: owner(entry[0]))
        self._workers = _Workers(max_concurrent)

    def submit(self, item: T) -> asyncio.Future[R]:
        """Return the future result of one item."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._pending.add((item, future))
        self._workers.start(self._process_pending)
        return future

    def fail_pending(self, error: Exception) -> None:
        """Deliver an error to all items whose batch has not started."""
        entries = self._pending.take(len(self._pending))
        StreamingBatch(entries, self._slot_timeout_s).fail_unresolved(error)

    async def join(self) -> None:
        """Wait until no batch is in flight."""
        await self._workers.join()

    def cancel(self) -> None:
        """Cancel all batches in flight."""
        self._workers.cancel()

    async def _process_pending(self) -> None:
        if self._delay is not None:
            await self._delay()
        while self._pending:
            batch = StreamingBatch(
                self._pending.take(max(1, self._max_items())), self._slot_timeout_s
            )
            self._workers.spawn(self._process(batch))
            await batch.wait_slot()

    async def _process(self, batch: StreamingBatch[T, R]) -> None:
        error: Exception = RetryableError("the batch ended without a result for every item")
        try:
            await self._work(batch)
        except Exception as exc:  # noqa: BLE001 - raised for the callers
            error = exc
        finally:
            batch.release_slot()
            batch.fail_unresolved(error)


def _resolve(future: asyncio.Future[R], result: R | Exception) -> None:
    if future.done():
        return
    if isinstance(result, Exception):
        future.set_exception(result)
    else:
        future.set_result(result)
