"""The role `watch`: folder connectors, and the answer to whoever asks them to look at their
folders now.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from livedex.app.wiring import AppContext
from livedex.connectors.filesystem import FolderConnector, FolderOptions
from livedex.connectors.filesystem.watch_state import retry_delay_s, wait_with_timeout
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.extract import is_supported_file
from livedex.pipeline.ingest.ingester import Ingester
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.installation_status import InstallationStatus
from livedex.pipeline.store.source_file_store import SourceFileStore

log = logging.getLogger(__name__)

_POLL_INTERVAL_S = 0.1


def make_connector(s: AppContext, source: FolderSource, intake: Ingester) -> FolderConnector:
    """The connector of a folder, as the settings have it."""
    options = FolderOptions(
        max_document_bytes=s.settings.max_document_bytes,
        max_delete_share=s.settings.max_delete_share,
        reconcile_interval_s=s.settings.reconcile_interval_s,
        ignored=(s.data.absolute(),),
        cut=s.cutting.id,
    )
    ledger = SourceFileStore(s.database, TenantId(source.tenant), source.name)

    async def tell(state: str, detail: str | None) -> None:
        await s.operations.set_health(f"source:{source.name}", ok=state == "ok", detail=detail)

    return FolderConnector(
        source,
        ledger=ledger,
        intake=intake,
        readable=is_supported_file,
        options=options,
        on_health=tell,
    )


async def serve_scan_requests(
    operations: InstallationStatus, connectors: Sequence[FolderConnector], stop: asyncio.Event
) -> None:
    """Look at all folders whenever somebody asks for it, until `stop` is set; an outage is waited
    for, and told once.
    """
    failures, told = 0, ""
    while not stop.is_set():
        try:
            requests = await operations.open_requests()
            if requests:
                reports = await asyncio.gather(*(connector.reconcile() for connector in connectors))
                await operations.close_requests(requests, "; ".join(map(str, reports)))
            failures, told = 0, ""
        except LivedexError as exc:
            if str(exc) != told:
                told = str(exc)
                log.warning("the folders could not be looked at: %s", exc)
            failures += 1
        await wait_with_timeout(stop, retry_delay_s(failures - 1) if failures else _POLL_INTERVAL_S)
