"""What a watcher says of its sources in the database: at its start, and every minute after that.

A source that the same watcher named before and no longer names is orphaned. A folder that is
watched under another name than before is recognised by its path, or by device and inode where
nothing is left at its old path; its ledger goes on under the new name, so its documents get their
new ids and nothing is embedded again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import socket
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from livedex.app.wiring import AppContext
from livedex.connectors.filesystem.watch_state import wait_with_timeout
from livedex.pipeline.errors import ConflictError, LivedexError
from livedex.pipeline.model import TenantId
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.store.source_store import SourceStore, SourceView

REPORT_INTERVAL_S = 60.0
_CONTAINER = re.compile(r"[0-9a-f]{12}")

log = logging.getLogger(__name__)


def watcher_name(s: AppContext) -> str:
    """Return what this watcher is called, the same after a restart: its host and its data
    directory, or the directory alone in a container, whose host name is made up.
    """
    host = socket.gethostname()
    place = os.fsencode(s.data.absolute()).decode("utf-8", "backslashreplace")
    return f"{'container' if _CONTAINER.fullmatch(host) else host}:{place}"


async def register_sources(s: AppContext, folders: Sequence[FolderSource]) -> list[SourceView]:
    """Name the sources of this watcher; those that it named before and that are another one's now,
    or nobody's.

    Returns:
        Every orphaned source that still has documents.
    """
    sources = SourceStore(s.database)
    await sources.leave(_watched(folders), watcher_name(s), alone=s.settings.database_url is None)
    known = await sources.all()
    for folder in folders:
        await _adopt_renamed_source(sources, folder, known)
    await sources.report_watched(_watched(folders), watcher_name(s))
    orphaned = [each for each in await sources.all() if each.orphaned and each.documents]
    for each in orphaned:
        log.warning("source %s: %s", each.name, orphaned_advice(each))
    return orphaned


def orphaned_advice(source: SourceView) -> str:
    """Return what to do about an orphaned source."""
    number = f"{source.documents:,} document{'s' * (source.documents != 1)}"
    return (
        f"{number} of it can still be found, and no setting names it: watch it again, or run "
        f"`livedex sources remove {source.name}`"
    )


async def report_sources_periodically(
    s: AppContext, folders: Sequence[FolderSource], stop: asyncio.Event
) -> None:
    """Register this watcher's sources every minute until `stop` is set; wait out outages."""
    while not stop.is_set():
        await wait_with_timeout(stop, REPORT_INTERVAL_S)
        try:
            await SourceStore(s.database).report_watched(_watched(folders), watcher_name(s))
        except LivedexError as exc:
            log.info("the sources are not reported yet: %s", exc)


async def _adopt_renamed_source(
    sources: SourceStore, folder: FolderSource, known: Sequence[SourceView]
) -> None:
    """Take over what an orphaned source has, where it is the same folder under another name."""
    tenant_id = TenantId(folder.tenant)
    if any(
        each.name == folder.name and each.tenant_id == tenant_id and each.documents
        for each in known
    ):
        return
    for old in known:
        if (
            old.orphaned
            and old.tenant_id == tenant_id
            and old.name != folder.name
            and await asyncio.to_thread(_is_same, folder, old)
        ):
            try:
                await sources.rename(tenant_id, old.name, folder.name)
            except ConflictError as exc:
                log.warning("source %s was %s until now: %s", folder.name, old.name, exc)
            else:
                log.info(
                    "source %s was %s until now: its documents get new ids, and nothing is "
                    "embedded again",
                    folder.name,
                    old.name,
                )
            return


def _is_same(folder: FolderSource, old: SourceView) -> bool:
    path = os.path.abspath(folder.path)
    if old.path and os.fsencode(path).decode("utf-8", "backslashreplace") == old.path:
        return True
    try:
        found = os.stat(path)
    except OSError:
        return False
    is_folder = os.path.isdir(path)
    return (
        is_folder and old.identity == (found.st_dev, found.st_ino) and not os.path.lexists(old.path)
    )


def _watched(folders: Sequence[FolderSource]) -> dict[TenantId, dict[str, str]]:
    watched = defaultdict[TenantId, dict[str, str]](dict)
    for folder in folders:
        path = os.fsencode(Path(os.path.abspath(folder.path)))
        watched[TenantId(folder.tenant)][folder.name] = path.decode("utf-8", "backslashreplace")
    return dict(watched)
