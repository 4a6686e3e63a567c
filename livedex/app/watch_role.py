"""The role `watch`: folder connectors, and the answer to whoever asks them to look at their folders now."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from livedex.app.wiring import Surroundings
from livedex.connectors.filesystem import FolderConnector, FolderOptions
from livedex.connectors.filesystem.watch_state import pause_s, wait_for
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.extract import is_readable
from livedex.pipeline.ingest.ingester import Intake
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.settings import FolderSource
from livedex.pipeline.store.installation_status import Operations
from livedex.pipeline.store.source_file_store import SourceFiles

log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.1


def make_connector(s: Surroundings, source: FolderSource, intake: Intake) -> FolderConnector:
    """The connector of a folder, as the settings have it."""
    options = FolderOptions(
        max_document_bytes=s.settings.max_document_bytes, max_delete_share=s.settings.max_delete_share,
        reconcile_interval_s=s.settings.reconcile_interval_s, ignored=(s.data.absolute(),), cut=s.cutting.id,
    )  # fmt: skip
    ledger = SourceFiles(s.database, TenantId(source.tenant), source.name)

    async def tell(state: str, detail: str | None) -> None:
        await s.operations.set_health(f"source:{source.name}", ok=state == "ok", detail=detail)

    return FolderConnector(source, ledger=ledger, intake=intake, readable=is_readable, options=options, on_health=tell)


async def answer_requests(operations: Operations, connectors: Sequence[FolderConnector], stop: asyncio.Event) -> None:
    """Look at all folders whenever somebody asks for it, until `stop` is set; an outage is waited for, and told once."""
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
        await wait_for(stop, pause_s(failures - 1) if failures else _LOOK_EVERY_S)
