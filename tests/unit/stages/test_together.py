"""What many ask for at once is done together, and one that fails costs nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from livedex.pipeline.errors import OutageError, RejectedError
from livedex.pipeline.runtime.micro_batch import MicroBatcher


class Work:
    """Doubles numbers; batches wait until they are let go, numbers below zero spoil theirs."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, numbers: Sequence[int]) -> list[int | Exception]:
        self.batches.append(list(numbers))
        await self.go.wait()
        if any(number < 0 for number in numbers):
            raise (
                OutageError("database", "away")
                if -99 in numbers
                else ValueError(f"spoilt by one of {len(numbers)}")
            )
        return [RejectedError("seven") if number == 7 else 2 * number for number in numbers]


async def started(
    together: MicroBatcher[int, int], numbers: Sequence[int]
) -> list[asyncio.Task[int]]:
    """Callers that all wait, in order."""

    async def call(number: int) -> int:
        return await together(number)

    tasks = [asyncio.create_task(call(number)) for number in numbers]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_a_single_one_waits_for_nobody() -> None:
    work = Work()
    work.go.set()
    assert await MicroBatcher(work)(4) == 8
    assert work.batches == [[4]]


async def test_who_asks_again_as_soon_as_there_is_an_answer_is_not_left_waiting() -> None:
    work = Work()
    work.go.set()
    together = MicroBatcher(work)
    async with asyncio.timeout(10):
        assert [await together(number) for number in range(5)] == [0, 2, 4, 6, 8]


async def test_what_comes_while_a_batch_is_under_way_is_the_next_batch() -> None:
    work = Work()
    together = MicroBatcher(work)
    first = await started(together, [1])
    others = await started(together, [2, 3, 4])
    work.go.set()
    assert await asyncio.gather(*first, *others) == [2, 4, 6, 8]
    assert work.batches == [[1], [2, 3, 4]]


async def test_one_that_spoils_its_batch_fails_alone() -> None:
    work = Work()
    tasks = await started(MicroBatcher(work), [1, 2, -3, 4, 5])
    work.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[:2] + answers[3:] == [2, 4, 8, 10]
    assert str(answers[2]) == "spoilt by one of 1"


async def test_an_answer_that_is_an_error_is_raised_for_its_caller_alone() -> None:
    work = Work()
    tasks = await started(MicroBatcher(work), [6, 7, 8])
    work.go.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert (answers[0], answers[2]) == (12, 16)
    assert isinstance(answers[1], RejectedError)
    assert work.batches == [[6, 7, 8]]


async def test_an_outage_is_told_to_all_of_the_batch_without_trying_again() -> None:
    work = Work()
    tasks = await started(MicroBatcher(work), [1, -99, 2])
    work.go.set()
    assert all(
        isinstance(answer, OutageError)
        for answer in await asyncio.gather(*tasks, return_exceptions=True)
    )
    assert work.batches == [[1, -99, 2]]


async def test_a_batch_is_of_one_group_and_keeps_the_order_of_the_rest() -> None:
    work = Work()
    work.go.set()
    tasks = await started(MicroBatcher(work, group=lambda number: number % 2), [1, 2, 3, 4, 6])
    await asyncio.gather(*tasks)
    assert work.batches == [[1, 3], [2, 4, 6]]


async def test_two_of_one_identity_are_never_in_one_batch() -> None:
    work = Work()
    work.go.set()
    tasks = await started(MicroBatcher(work, identity=lambda number: number % 10), [1, 11, 2, 21])
    await asyncio.gather(*tasks)
    assert work.batches == [[1, 2], [11], [21]]


@pytest.mark.parametrize(
    ("bounds", "batches"),
    [({"max_items": 2}, [[1, 2], [3]]), ({"max_size": 4, "size": lambda n: n}, [[1, 2], [3]])],
    ids=["count", "size"],
)
async def test_a_batch_is_no_larger_than_allowed(
    bounds: dict[str, object], batches: list[list[int]]
) -> None:
    work = Work()
    work.go.set()
    await asyncio.gather(*await started(MicroBatcher(work, **bounds), [1, 2, 3]))
    assert work.batches == batches


async def test_one_larger_than_a_batch_may_be_goes_alone() -> None:
    work = Work()
    work.go.set()
    await asyncio.gather(
        *await started(MicroBatcher(work, size=lambda n: n, max_size=4), [9, 1, 2])
    )
    assert work.batches == [[9], [1, 2]]


async def test_who_was_cancelled_is_left_out_and_takes_nothing_from_the_others() -> None:
    work = Work()
    together = MicroBatcher(work)
    first = await started(together, [1])
    gone, stays = await started(together, [2, 3])
    gone.cancel()
    await asyncio.sleep(0)
    work.go.set()
    assert await asyncio.gather(*first, stays) == [2, 6]
    assert work.batches == [[1], [3]]
