"""`livedex status`."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.app import reports
from livedex.app.process import is_running
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import error_line, one_line, pluralize, print_json, print_table

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.store.documents.generation_backlog import RemainingWork

CAUGHT_UP, NOT_CAUGHT_UP, HAS_DEAD_LETTERS = 0, 1, 2
_DEFAULT_WAIT_S = "600"
_BY_NAME = ("source:", "subscriber:")


@click.command(
    "status", epilog=example("livedex status", "livedex status --wait 60", "livedex status --json")
)
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    is_flag=False,
    flag_value=_DEFAULT_WAIT_S,
    metavar="[SECONDS]",
    help="Scan the folders, then wait until the index reflects them and every accepted event, "
    f"for at most this long (default: {_DEFAULT_WAIT_S}).",
)
@data_option
@json_option
def status(wait_s: float | None, data: Path, as_json: bool) -> int:
    """Show documents by state, pending events of each stage, health and dead letters.

    With --wait, the exit status is 0 if everything was processed, 1 if some is still pending, and 2
    if some became dead letters.
    """
    return run_command(_status(data, wait_s, as_json))


async def _status(data: Path, wait_s: float | None, as_json: bool) -> int:
    deadline = time.monotonic() + (wait_s or 0)
    async with open_command_context(data) as s:
        problem = None if wait_s is None else await _wait(s, deadline, wait_s)
        found = await reports.status_report(s, s.database)
        named = await _named(s)
        dead = 0 if wait_s is None or problem else await count_dead(s)
    if as_json:
        print_json(found)
    else:
        _print(found, named)
    if problem:
        click.echo(error_line(problem), err=True)
        return NOT_CAUGHT_UP
    if dead:
        click.echo(
            error_line(
                f"{pluralize(dead, 'change')} ended among the dead letters: see `livedex dead list`"
            ),
            err=True,
        )
        return HAS_DEAD_LETTERS
    return CAUGHT_UP


async def count_dead(s: AppContext) -> int:
    """Documents whose newest version is a dead letter, and letters that mark no document, such as
    of a push that could not be looked up; not what
    subscribers were not told.
    """
    states = await s.operations.document_states()
    return states.get("dead", 0) + await s.operations.dead_letters_without_document()


async def _named(s: AppContext) -> dict[str, str]:
    """The health of each source and of each subscriber; of one that is told, but not everything,
    what `livedex subscribers list` says.
    """
    named = {
        name: health
        for name, health in (await reports.component_health(s)).items()
        if name.startswith(_BY_NAME)
    }
    for each in await reports.list_subscribers(s, s.database):
        name = f"subscriber:{each.name}"
        if named.get(name, "ok") == "ok":
            named[name] = each.state + (
                f": {each.problem}" if each.problem and each.state != "ok" else ""
            )
    return named


async def _wait(s: AppContext, deadline: float, wait_s: float) -> str | None:
    """Wait; what to say when not all has ended.

    Where `livedex up` was started on this data directory and does not run, nothing will change:
    that is said at once. With a database elsewhere the roles may run anywhere.
    """
    from livedex.app.catch_up import wait_for_catch_up
    from livedex.app.wiring import read_up_state

    if not is_running(s.data) and (s.settings.database_url is None or read_up_state(s.data)):
        return await _pending_until_start(s)
    ended = await wait_for_catch_up(
        s.operations, s.backlog, deadline=deadline, scan=await _somebody_watches(s)
    )
    if ended.all and (problem := await _wait_for_vectors(s, deadline)):
        return problem
    if not ended.all:
        return (
            f"not all has ended after {wait_s:g} s, {ended.left}: wait longer, or look at "
            "`livedex status`"
        )
    sources = {
        name.removeprefix("source:"): told
        for name, told in (await reports.component_health(s)).items()
        if name.startswith("source:")
    }
    differing = [
        f"{name}: {told.removeprefix('down: ')}"
        for name, told in sorted(sources.items())
        if told.startswith("down")
    ]
    return (
        "all that was accepted has ended, but the index does not hold what the folders "
        f"hold: {'; '.join(differing)}"
        if differing
        else None
    )


async def _wait_for_vectors(s: AppContext, deadline: float) -> str | None:
    """Wait until what is stored has vectors of the model in use; what to say when it has not."""
    from livedex.app.catch_up import POLL_INTERVAL_S

    while (left := await reports.left_to_embed(s, s.database)).documents:
        if time.monotonic() >= deadline:
            return (
                f"all that was accepted has ended, but {_what_lacks_vectors(s, left)}: wait "
                "longer, or look at `livedex status`"
            )
        await asyncio.sleep(5 * POLL_INTERVAL_S)
    return None


def _what_lacks_vectors(s: AppContext, left: RemainingWork) -> str:
    return (
        f"{pluralize(left.documents, 'document')} ({pluralize(left.passages, 'passage')}) still "
        f"lack vectors of {s.embeddings.model_id}"
    )


async def _somebody_watches(s: AppContext) -> bool:
    from livedex.app.wiring import watched_folders

    if is_running(s.data):
        return bool(watched_folders(s.settings, s.data))
    return any(name.startswith("source:") for name in await s.operations.health())


async def _pending_until_start(s: AppContext) -> str | None:
    """What the index lacks while nothing runs that could change it; None when it lacks nothing."""
    from livedex.app.catch_up import wait_for_catch_up
    from livedex.app.folder_scan import open_folder, scan_for_differences
    from livedex.app.wiring import watched_folders

    ended = await wait_for_catch_up(s.operations, s.backlog, deadline=0, scan=False)
    differing = 0
    for source in watched_folders(s.settings, s.data):
        folder = open_folder(source, s.settings, s.data)
        differing += len((await scan_for_differences(folder, s.database, s.cutting)).differences)
    left = await reports.left_to_embed(s, s.database)
    if ended.all and not differing and not left.documents:
        return None
    if ended.all and not differing:
        return (
            "nothing runs that could bring the index up to date, and "
            f"{_what_lacks_vectors(s, left)}: start `livedex up`"
        )
    files = f"{pluralize(differing, 'file')} differ from the index" if differing else ended.left
    return f"nothing runs that could bring the index up to date, and {files}: start `livedex up`"


def _print(found: dict[str, Any], named: dict[str, str]) -> None:
    rows = [(state, n) for state, n in found["documents"].items() if n] or [("none yet", 0)]
    print_table(rows, ("documents", ""))
    click.echo()
    print_table(
        [
            (name, *("?" if n is None else n for n in (stage["waiting"], stage["oldest_s"])))
            for name, stage in found["stages"].items()
        ],
        ("stage", "waiting", "oldest s"),
    )
    click.echo()
    print_table([*found["health"].items(), *named.items()], ("health", ""))
    click.echo()
    for line in _source_lines(found["sources"]):
        click.echo(line)
    embedding = found["embedding"]
    if embedding["documents"]:
        left = (
            f"{pluralize(embedding['left'], 'passage')} of "
            f"{pluralize(embedding['documents'], 'document')}"
        )
        click.echo(
            f"{left} left to embed with {embedding['model']}; until then vector searches say "
            "`degraded`\n"
        )
    click.echo(pluralize(found["dead"], "dead letter"))


def _source_lines(sources: list[dict[str, Any]]) -> list[str]:
    """What has to be said of sources beside their health: orphaned ones, and files that are no
    documents.
    """
    from livedex.connectors.filesystem.skipped_files import skipped_files_summary

    lines = []
    for source in sources:
        name, documents = one_line(source["name"]), pluralize(source["documents"], "document")
        if source["state"] == "orphaned" and source["documents"]:
            lines.append(
                f"{name}: orphaned, no setting names it, and {documents} can still be found: "
                f"watch it again, or `livedex sources remove {name}`"
            )
        elif source["state"] == "unwatched" and source["documents"]:
            lines.append(
                f"{name}: no watcher has named it for a day, and {documents} can still be "
                f"found: start its watcher, or `livedex sources remove {name}`"
            )
        else:
            lines += [f"{name}: {line}" for line in skipped_files_summary(source["left_out"])]
    return [*lines, ""] if lines else []
