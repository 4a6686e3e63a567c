"""Measure how far the first load of the folders is: files found, and documents of them that are
indexed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from livedex.connectors.filesystem import FolderConnector
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.postgres.statements import sql

log = logging.getLogger(__name__)

_EVERY_S = 0.5
_SHARE = 0.05
"""Of the time that counting may take."""


@dataclass
class InitialLoad:
    """The first load of all folders since the start of this process.

    Attributes:
        found: files that count as documents, as listed before any was read, and since then those
            published.
        done: of these, how many are indexed in their newest version, or have ended otherwise; <=
            found.
        at_start: how many were done when it began.
        passages: distinct passages that they show; counted when the load is over.
        seconds: since it began, to its end.
        is_over: everything found at the start has ended; from then on nothing changes here.
        counted: set once the files are counted.
    """

    folders: Sequence[tuple[FolderSource, FolderConnector]]
    database: Database
    found: int = 0
    done: int = 0
    at_start: int = 0
    passages: int = 0
    seconds: float = 0.0
    is_over: bool = False
    counted: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Measure until the load is complete; during a database outage the last figures stay."""
        began = time.monotonic()
        listed = sum(
            await asyncio.gather(*(connector.count_files() for _, connector in self.folders))
        )
        self.found, is_first = listed, True
        self.counted.set()
        while not self.is_over:
            asked = time.monotonic()
            scanned = all(connector.ready.is_set() for _, connector in self.folders)
            try:
                published, done = await self._measure()
                self.found = published if scanned else max(listed, published)
                self.done = min(done, self.found)
                if is_first:
                    self.at_start, is_first = self.done, False
                if scanned and self.done >= self.found:
                    self.passages = await self._count_passages()
                    self.is_over = True
            except LivedexError as exc:
                log.debug("the first load cannot be measured now: %s", exc)
            self.seconds = time.monotonic() - began
            if not self.is_over:
                await asyncio.sleep(max(_EVERY_S, (time.monotonic() - asked) / _SHARE))

    async def _measure(self) -> tuple[int, int]:
        published = done = 0
        for source, _ in self.folders:
            async with self.database.tenant(
                TenantId(source.tenant), "measure the first load", snapshot=True
            ) as connection:
                row = await connection.fetchrow(sql("load_progress"), source.tenant, source.name)
            published, done = published + row["published"], done + row["done"]
        return published, done

    async def _count_passages(self) -> int:
        found = 0
        for source, _ in self.folders:
            async with self.database.tenant(
                TenantId(source.tenant), "count passages", snapshot=True
            ) as connection:
                found += await connection.fetchval(
                    sql("source_passages"), source.tenant, source.name
                )
        return found
