"""Republish documents whose records the broker deleted before they were consumed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from livedex.pipeline.errors import LivedexError
from livedex.pipeline.events.event import CHUNKED, Changed, Event, ManifestRef, change_event
from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.metrics import Metrics
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.installation_status import InstallationStatus
from livedex.pipeline.store.postgres.statements import sql

if TYPE_CHECKING:
    from livedex.consumers.stage_processors import Broker

log = logging.getLogger(__name__)

COMPONENT = "retention"
_PAGE = 500
_MAX_CONCURRENT = 50
_MIN_AGE_S = 30.0  # younger versions are being processed
_COLLECT_S = 3.0
_REPORTED_FOR_S = 3600.0
_RETRY_S = 15.0


@dataclass(frozen=True, slots=True)
class Republished:
    """Counts of republished items.

    Attributes:
        steps: versions with a manifest whose next event was lost.
        deletes: of deleted files.
        files: that the requested scan reads again.
    """

    steps: int = 0
    deletes: int = 0
    files: int = 0


class RecordRecovery:
    """Republishes documents whose records were lost.

    Args:
        database: of the documents.
        operations: requests scans.
        broker: publishes.
    """

    def __init__(self, database: Database, operations: InstallationStatus, broker: Broker) -> None:
        self._database, self._operations, self._broker = database, operations, broker

    async def republish(self, *, older_than_s: float | None = None) -> Republished:
        """Republish pending versions whose record may be lost; a duplicate record has no effect.

        Args:
            older_than_s: minimum seconds since the change was accepted, >= 0; None: 30.

        Returns:
            the counts.

        Raises:
            LivedexError: as the database and the broker do.
        """
        older_than_s = _MIN_AGE_S if older_than_s is None else older_than_s
        steps = deletes = files = 0
        for tenant_id in await self._database.tenants():
            async for rows in self._pages("pending_with_manifest", tenant_id, older_than_s):
                for at in range(0, len(rows), _MAX_CONCURRENT):
                    events = [_step(tenant_id, row) for row in rows[at : at + _MAX_CONCURRENT]]
                    await asyncio.gather(
                        *(self._broker.publish_step(CHUNKED, event) for event in events)
                    )
                steps += len(rows)
            async for rows in self._pages("published_and_unknown", tenant_id, older_than_s):
                gone = [row for row in rows if not row["present"]]
                await self._broker.publish([_delete(tenant_id, row) for row in gone])
                deletes += len(gone)
                files += await self._forget(tenant_id, [row for row in rows if row["present"]])
        if files:
            await self._operations.request_scan()
        return Republished(steps, deletes, files)

    async def _pages(
        self, name: str, tenant_id: TenantId, older_than_s: float
    ) -> AsyncIterator[list[Any]]:
        behind = ""
        while True:
            async with self._database.tenant(
                tenant_id, "documents whose records were lost"
            ) as connection:
                rows = await connection.fetch(sql(name), tenant_id, older_than_s, behind, _PAGE)
            if rows:
                yield rows
            if len(rows) < _PAGE:
                return
            behind = rows[-1]["document_id"]

    async def _forget(self, tenant_id: TenantId, rows: list[Any]) -> int:
        """Mark files as unpublished, so that the next scan publishes them again."""
        sources: dict[str, list[str]] = {}
        for row in rows:
            sources.setdefault(row["source"], []).append(row["document_id"])
        async with self._database.tenant(tenant_id, "forget files") as connection:
            for source, documents in sorted(sources.items()):
                await connection.execute(sql("forget_files"), tenant_id, source, documents)
        return len(rows)


class RecordLossMonitor:
    """Counts lost records, reports them, and starts their recovery.

    Args:
        records: republishes.
        metrics: of this process.
        tell: reports what happened and what to do in the health.
    """

    def __init__(
        self, records: RecordRecovery, metrics: Metrics, tell: Callable[[str, str | None], None]
    ) -> None:
        self._records, self._metrics, self._tell = records, metrics, tell
        self._lost: dict[str, int] = {}
        self._news = asyncio.Event()

    def lost(self, stage: str, count: int) -> None:
        """Record that Kafka deleted records before a stage consumed them.

        Args:
            stage: its name.
            count: of records; 0: unknown.
        """
        self._metrics.records_expired_total.labels(stage).inc(count)
        self._lost[stage] = self._lost.get(stage, 0) + count
        counts = ", ".join(
            f"{number or 'an unknown number'} of the stage {name}"
            for name, number in sorted(self._lost.items())
        )
        self._tell(
            COMPONENT,
            f"records were removed from Kafka before they were read ({counts}): files are "
            "published again by themselves; documents that were sent "
            "by API, webhook or Kafka have to be sent again. Raise the retention of the "
            "topics (LIVEDEX_KAFKA_RETENTION_DAYS), or run more processes",
        )
        self._news.set()

    async def run(self) -> None:
        """Republish after each loss, until cancelled."""
        while True:
            try:
                await asyncio.wait_for(self._news.wait(), _REPORTED_FOR_S)
            except TimeoutError:
                if self._lost:
                    self._lost.clear()
                    self._tell(COMPONENT, None)
                continue
            await asyncio.sleep(_COLLECT_S)  # other partitions and stages may report losses too
            self._news.clear()
            try:
                await self._republish()
                await asyncio.sleep(_MIN_AGE_S)
                await self._republish()  # versions that were too young before
            except LivedexError as exc:
                log.warning("lost records could not be republished; retried: %s", exc)
                await self._later()
            except Exception:
                log.exception("lost records could not be republished; retried")
                await self._later()

    async def _republish(self) -> None:
        done = await self._records.republish()
        log.warning(
            "republished: %d steps, %d deletes; %d files are read again",
            done.steps,
            done.deletes,
            done.files,
        )

    async def _later(self) -> None:
        await asyncio.sleep(_RETRY_S)
        self._news.set()


@asynccontextmanager
async def run_record_loss_monitor(watch: RecordLossMonitor) -> AsyncIterator[None]:
    """Run a monitor for the block.

    Args:
        watch: the monitor.
    """
    task = asyncio.create_task(watch.run(), name="record loss monitor")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _step(tenant_id: TenantId, row: Any) -> Event[ManifestRef]:
    data = ManifestRef(
        tenant_id=tenant_id,
        document_id=row["document_id"],
        version=row["version"],
        digest=row["digest"].hex(),
    )
    return Event[ManifestRef](
        id=uuid4().hex,
        source="/recovery",
        type=CHUNKED,
        subject=row["document_id"],
        time=datetime.now(UTC),
        accepted=row["accepted_at"],
        data=data,
    )


def _delete(tenant_id: TenantId, row: Any) -> Event[Changed]:
    return change_event(
        Changed(
            tenant_id=tenant_id,
            document_id=row["document_id"],
            version=row["version"],
            deleted=True,
            source=row["source"],
        )
    )
