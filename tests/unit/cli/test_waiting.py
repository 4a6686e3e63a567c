"""Waiting until all that was accepted has ended, and what came of it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import cast

from livedex.app.catch_up import wait_for_catch_up
from livedex.pipeline.events.consumer_lag import StageLag
from livedex.pipeline.store.installation_status import InstallationStatus


class _Nothing:
    """No document is under way."""

    async def pending_since(self, moment: datetime) -> int:
        return 0


class _EndsBetweenTwoLooks:
    """A broker with one event, which ends in another one just after the place up to which changes
    were accepted was noted.
    """

    def __init__(self) -> None:
        self.first, self.second = True, False

    async def waiting(self) -> dict[str, StageLag]:
        return {}

    async def mark(self) -> object:
        there = (self.first, self.second)
        self.first, self.second = False, self.first or self.second
        return there

    async def left(self, mark: object) -> int:
        left = sum(
            marked and there
            for marked, there in zip(
                cast("tuple[bool, bool]", mark), (self.first, self.second), strict=True
            )
        )
        if mark[1]:
            self.second = False  # until the next look
        return left


async def test_what_came_of_an_event_that_ended_between_two_looks_is_waited_for() -> None:
    broker = _EndsBetweenTwoLooks()
    found = await wait_for_catch_up(
        cast("InstallationStatus", _Nothing()), broker, deadline=time.monotonic() + 60, scan=False
    )
    assert found.all
    assert not broker.second, "what came of the event was still there"
