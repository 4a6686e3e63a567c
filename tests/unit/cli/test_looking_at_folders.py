"""Answering those who ask that the folders be looked at now."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from livedex.app.watch_role import serve_scan_requests
from livedex.connectors.filesystem import FolderConnector
from livedex.connectors.filesystem.scan_report import ScanReport
from livedex.pipeline.errors import OutageError
from livedex.pipeline.store.installation_status import InstallationStatus


class _Asked:
    """Two requests, one after the other."""

    def __init__(self, stop: asyncio.Event) -> None:
        self.open = [1, 2]
        self.stop = stop

    async def open_requests(self) -> list[int]:
        return self.open[:1]

    async def close_requests(self, requests: list[int], detail: str) -> None:
        self.open.remove(*requests)
        if not self.open:
            self.stop.set()


class _FullDisk:
    """A folder whose changes cannot be published for a while; what it says then."""

    def __init__(self, *says: str | None) -> None:
        self.says = list(says)

    async def reconcile(self) -> ScanReport:
        if said := self.says.pop(0):
            raise OutageError("broker", said)
        return ScanReport()


async def test_an_outage_is_waited_for_and_told_once_until_it_says_something_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stop = asyncio.Event()
    asked, folder = _Asked(stop), _FullDisk("full", "full", "away", None, "full", None)
    await asyncio.wait_for(
        serve_scan_requests(
            cast("InstallationStatus", asked), [cast("FolderConnector", folder)], stop
        ),
        30,
    )
    assert asked.open == folder.says == []
    assert [record.getMessage().rsplit(" ", 1)[-1] for record in caplog.records] == [
        "full",
        "away",
        "full",
    ]
