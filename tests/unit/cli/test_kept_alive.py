"""A role that ends by an error begins again; one that is told to stop does not."""

import asyncio

import pytest

from livedex.app import roles


async def test_a_role_that_fails_begins_again_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roles, "_FIRST_PAUSE_S", 0.001)
    stop, begun = asyncio.Event(), 0

    async def work(until: asyncio.Event) -> None:
        nonlocal begun
        begun += 1
        if begun < 4:
            raise ZeroDivisionError
        await until.wait()

    task = asyncio.create_task(roles.kept_alive(work, stop, "test"))
    while begun < 4:
        await asyncio.sleep(0.001)
    stop.set()
    await task
    assert begun == 4


async def test_a_stop_ends_the_pause_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roles, "_FIRST_PAUSE_S", 3600.0)
    stop = asyncio.Event()

    async def work(until: asyncio.Event) -> None:
        stop.set()
        raise ZeroDivisionError

    await roles.kept_alive(work, stop, "test")
