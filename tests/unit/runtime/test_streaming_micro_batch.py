"""Batches whose results are delivered one by one."""

from __future__ import annotations

import asyncio

import pytest

from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.runtime.micro_batch import StreamingBatch, StreamingMicroBatcher

Item = tuple[str, int]


class Work:
    """Doubles numbers, the even ones first; waits between both halves.

    Attributes:
        batches: the items of each batch.
        go: lets the second half continue.
        error: raised instead of the second half.
    """

    def __init__(self) -> None:
        self.batches: list[list[Item]] = []
        self.go = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, batch: StreamingBatch[Item, int]) -> None:
        self.batches.append(batch.items)
        for index, (_, number) in enumerate(batch.items):
            if number % 2 == 0:
                batch.resolve(index, 2 * number)
        batch.release_slot()
        await self.go.wait()
        if self.error is not None:
            raise self.error
        for index in batch.unresolved:
            batch.resolve(index, 2 * batch.items[index][1])


def batcher(
    work: Work, *, max_items: int = 4, slot_timeout_s: float = 60.0
) -> StreamingMicroBatcher[Item, int]:
    return StreamingMicroBatcher(
        work,
        owner=lambda item: item[0],
        max_items=lambda: max_items,
        max_concurrent=1,
        slot_timeout_s=slot_timeout_s,
    )


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_results_arrive_before_the_batch_ends_and_the_next_batch_starts() -> None:
    work = Work()
    batches = batcher(work)
    even, odd = batches.submit(("a", 2)), batches.submit(("a", 3))
    await settle()
    assert even.result() == 4 and not odd.done()
    other = batches.submit(("a", 6))
    await settle()
    assert other.result() == 12 and len(work.batches) == 2
    work.go.set()
    assert await odd == 6


async def test_each_batch_takes_items_of_all_owners_in_turn() -> None:
    work = Work()
    work.go.set()
    batches = batcher(work)
    futures = [batches.submit(("large", n)) for n in range(6)] + [batches.submit(("small", 0))]
    await asyncio.gather(*futures)
    assert ("small", 0) in work.batches[0]


@pytest.mark.parametrize("error", [OutageError("database", "unavailable"), ValueError("x"), None])
async def test_items_without_a_result_fail_with_the_error_of_the_batch(
    error: Exception | None,
) -> None:
    async def resolve_first(batch: StreamingBatch[Item, int]) -> None:
        batch.resolve(0, 1)
        if error is not None:
            raise error

    batches: StreamingMicroBatcher[Item, int] = StreamingMicroBatcher(
        resolve_first,
        owner=lambda item: item[0],
        max_items=lambda: 4,
        max_concurrent=1,
        slot_timeout_s=60.0,
    )
    first, second = batches.submit(("a", 0)), batches.submit(("a", 1))
    await asyncio.wait([first, second])
    assert first.result() == 1
    assert isinstance(second.exception(), type(error) if error else RetryableError)


async def test_a_batch_without_a_result_loses_its_slot_after_the_timeout() -> None:
    work = Work()
    batches = batcher(work, slot_timeout_s=0.01)
    work.go.clear()
    stuck = batches.submit(("a", 1))
    other = batches.submit(("a", 2))
    async with asyncio.timeout(30):
        assert await other == 4
    assert not stuck.done()
    work.go.set()
    assert await stuck == 2


async def test_pending_items_fail_and_batches_in_flight_end() -> None:
    work = Work()
    batches = batcher(work, max_items=1)
    first = batches.submit(("a", 1))
    await settle()
    batches.fail_pending(OutageError("embedder", "shutting down"))
    pending = batches.submit(("a", 3))
    batches.fail_pending(OutageError("embedder", "shutting down"))
    work.go.set()
    await batches.join()
    assert first.result() == 2
    assert isinstance(pending.exception(), OutageError)
