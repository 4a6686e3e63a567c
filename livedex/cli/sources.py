"""`livedex sources`: where documents come from, what became of it, and what waits for a
confirmation.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from livedex.app.process import is_running
from livedex.app.reports import source_report, source_state
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, parse_tenant_name
from livedex.cli.output import format_time, pluralize, print_list
from livedex.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.settings.folder_source import FolderSource
    from livedex.pipeline.store.source_store import SourceView

_HEADS = (
    "source",
    "tenant",
    "kind",
    "state",
    "documents",
    "withheld deletes",
    "last scan",
    "folder",
)
_WAIT_S = 600.0
_SCAN_S = 120.0
_REPORTED_WITHIN = timedelta(minutes=2)

_timeout = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0),
    default=_WAIT_S,
    show_default=True,
    help="Seconds to wait for completion.",
)

_tenant = click.option(
    "--tenant",
    callback=parse_tenant_name,
    help="Only in this tenant. Default: every tenant with a source of this name.",
)


@click.group(
    "sources",
    epilog=example(
        "livedex sources list",
        "livedex sources confirm docs",
        "livedex sources remove old-wiki",
        "livedex sources rename docs handbook",
    ),
)
def sources() -> None:
    """Manage the sources of documents: watched folders and systems that push changes."""


@sources.command("list", epilog=example("livedex sources list --json"))
@data_option
@json_option
def list_sources(data: Path, as_json: bool) -> int:
    """List the sources with their last scan, withheld deletes and orphaned documents."""
    print_list(
        run_command(_list(data)),
        name="sources",
        what="sources",
        item=source_report,
        line=_line,
        heads=_HEADS,
        as_json=as_json,
    )
    return 0


@sources.command("remove", epilog=example("livedex sources remove old-wiki"))
@click.argument("name")
@_tenant
@_timeout
@data_option
def remove(name: str, tenant: str | None, timeout_s: float, data: Path) -> int:
    """Remove the source NAME and delete all its documents.

    Take a watched folder out of the settings before removing its source.
    """
    deleted = run_command(_remove(data, name, tenant, timeout_s))
    click.echo(f"{name} is removed; {pluralize(deleted, 'document')} deleted")
    return 0


@sources.command("rename", epilog=example("livedex sources rename docs handbook"))
@click.argument("old")
@click.argument("new")
@_tenant
@data_option
def rename(old: str, new: str, tenant: str | None, data: Path) -> int:
    """Rename the source OLD to NEW.

    Documents get new ids at the next scan under the new name; nothing is embedded again.
    """
    documents = run_command(_rename(data, old, new, tenant))
    click.echo(
        f"{old} was renamed to {new}: start Livedex with the folder under this name; "
        f"{pluralize(documents, 'document')} get new ids"
    )
    return 0


@sources.command("confirm", epilog=example("livedex sources confirm docs"))
@click.argument("name")
@_tenant
@_timeout
@data_option
def confirm(name: str, tenant: str | None, timeout_s: float, data: Path) -> int:
    """Confirm the withheld deletes of NAME: delete the documents of its missing files."""
    confirmed, left = run_command(_confirm(data, name, tenant, timeout_s))
    if not confirmed:
        click.echo(f"{name} has no withheld deletes")
    elif left:
        click.echo(
            f"{pluralize(confirmed, 'delete')} of {name} are confirmed; {left} are carried "
            "out by the next scan of its folder"
        )
    else:
        click.echo(f"{pluralize(confirmed, 'delete')} of {name} are carried out")
    return 0


async def _list(data: Path) -> list[SourceView]:
    from livedex.pipeline.store.source_store import SourceStore

    async with open_command_context(data) as s:
        return await SourceStore(s.database).all()


async def _remove(data: Path, name: str, tenant: str | None, timeout_s: float) -> int:
    from livedex.app.broker import open_broker
    from livedex.app.catch_up import wait_for_catch_up
    from livedex.app.source_removal import remove_source
    from livedex.pipeline.flow import StageName
    from livedex.pipeline.store.source_store import SourceStore

    async with open_command_context(data) as s:
        sources = SourceStore(s.database)
        found = await sources.find(name, tenant)
        for each in found:
            _refuse_watched(s, each)
        async with open_broker(
            s, () if is_running(s.data) else get_args(StageName), fills=False
        ) as running:
            deleted = sum(
                [
                    await remove_source(sources, running.intake, each.tenant_id, name)
                    for each in found
                ]
            )
            await wait_for_catch_up(
                s.operations, s.backlog, deadline=time.monotonic() + timeout_s, scan=False
            )
    return deleted


def _refuse_watched(s: AppContext, source: SourceView) -> None:
    named = any(
        (folder.tenant, folder.name) == (source.tenant_id, source.name)
        for folder in s.settings.folders
    )
    if (
        source.is_folder
        and not source.orphaned
        and (named or is_running(s.data) or _is_reported(s, source))
    ):
        raise ConfigError(
            f"{source.name} is watched: take its folder out of livedex.toml or of `livedex "
            "up`, start again without it, and then remove it"
        )


def _is_reported(s: AppContext, source: SourceView) -> bool:
    """Whether a watcher named it a moment ago; one on this data directory would hold its lock."""
    reported = source.reported_at
    return (
        s.settings.database_url is not None
        and reported is not None
        and datetime.now(UTC) - reported < _REPORTED_WITHIN
    )


async def _rename(data: Path, old: str, new: str, tenant: str | None) -> int:
    from livedex.pipeline.settings.folder_source import FolderSource
    from livedex.pipeline.store.source_store import SourceStore

    try:
        FolderSource(name=new, path=Path())
    except ValueError as exc:
        raise ConfigError(
            f"{new!r} cannot be the name of a source: 1 to 200 characters, without a slash"
        ) from exc
    async with open_command_context(data) as s:
        sources = SourceStore(s.database)
        found = [each for each in await sources.find(old, tenant) if each.is_folder]
        if not found:
            raise ConfigError(
                f"{old} is no folder: documents that were sent keep the ids that they were "
                "sent with"
            )
        if is_running(s.data) or any(not each.orphaned and _is_reported(s, each) for each in found):
            raise ConfigError(
                f"{old} is watched: end Livedex first, rename the source, and start it with "
                "the new name"
            )
        for each in found:
            await sources.rename(each.tenant_id, old, new)
    return sum(each.documents for each in found)


async def _confirm(data: Path, name: str, tenant: str | None, timeout_s: float) -> tuple[int, int]:
    """How many deletes were confirmed, and how many of them wait for a scan."""
    from livedex.app.catch_up import wait_for_catch_up, wait_for_scan
    from livedex.app.wiring import watched_folders
    from livedex.pipeline.store.source_store import SourceState, SourceStore

    async with open_command_context(data) as s:
        found = await SourceStore(s.database).find(name, tenant)
        stores = [SourceState(s.database, each.tenant_id, name) for each in found]
        confirmed = sum(each.withheld for each in found)
        if not confirmed:
            return 0, 0
        for store in stores:
            await store.confirm_deletes()
        folders = [
            folder
            for folder in watched_folders(s.settings, s.data)
            if folder.name == name and folder.path.exists()
        ]
        if is_running(s.data) or not folders:
            await wait_for_scan(
                s.operations,
                deadline=time.monotonic() + min(timeout_s, _SCAN_S if is_running(s.data) else 10.0),
            )
            await wait_for_catch_up(
                s.operations, s.backlog, deadline=time.monotonic() + timeout_s, scan=False
            )
        else:
            await _scan_here(s, folders, timeout_s)
        return confirmed, sum([len(await store.paths()) for store in stores])


async def _scan_here(s: AppContext, folders: list[FolderSource], timeout_s: float) -> None:
    from livedex.app.broker import open_broker
    from livedex.app.catch_up import wait_for_catch_up
    from livedex.app.watch_role import make_connector
    from livedex.pipeline.flow import StageName

    async with open_broker(s, get_args(StageName), fills=False) as running:
        for folder in folders:
            await make_connector(s, folder, running.intake).reconcile()
        await wait_for_catch_up(
            s.operations, s.backlog, deadline=time.monotonic() + timeout_s, scan=False
        )


def _line(x: SourceView) -> tuple[object, ...]:
    kind = "folder" if x.is_folder else "sent"
    return (
        x.name,
        x.tenant_id,
        kind,
        source_state(x),
        x.documents,
        x.withheld,
        format_time(x.scanned_at),
        x.path,
    )
