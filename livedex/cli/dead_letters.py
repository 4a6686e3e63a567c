"""`livedex dead`: manage dead letters, which keep the exact bytes of failed events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.app.reports import dead_letter_details, dead_letter_report
from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import (
    format_time,
    pluralize,
    print_json,
    print_list,
    print_table,
    printable,
    truncate,
)
from livedex.pipeline.errors import NotFoundError

if TYPE_CHECKING:
    from livedex.app.dead_letter_replay import ReplayResult
    from livedex.app.wiring import AppContext
    from livedex.pipeline.store.dead_letter_store import DeadLetter

_DETAIL_CHARACTERS = 100
_HEADS = ("id", "stage", "document", "reason", "attempts", "at", "detail")


@click.group(
    "dead",
    epilog=example(
        "livedex dead list",
        "livedex dead show 4f1c0a9be2d73c58",
        "livedex dead replay --all",
        "livedex dead drop --all",
    ),
)
def dead() -> None:
    """Manage dead letters: events that could not be processed."""


@dead.command("list", epilog=example("livedex dead list --json"))
@data_option
@json_option
def list_letters(data: Path, as_json: bool) -> int:
    """List the dead letters, oldest first."""
    print_list(
        run_command(_all(data)),
        name="dead",
        what="dead letters",
        item=dead_letter_report,
        line=_line,
        heads=_HEADS,
        as_json=as_json,
    )
    return 0


@dead.command("show", epilog=example("livedex dead show 4f1c0a9be2d73c58"))
@click.argument("letter_id", metavar="ID")
@data_option
@json_option
def show(letter_id: str, data: Path, as_json: bool) -> int:
    """Show one dead letter with its exact bytes."""
    letter = run_command(_one(data, letter_id))
    found = dead_letter_details(letter)
    if as_json:
        print_json(found)
        return 0
    print_table([(name, value) for name, value in found.items() if name != "payload"])
    click.echo()
    click.echo(printable(found["payload"]))
    return 0


@dead.command(
    "replay", epilog=example("livedex dead replay 4f1c0a9be2d73c58", "livedex dead replay --all")
)
@click.argument("letter_id", metavar="[ID]", required=False)
@click.option("--all", "every", is_flag=True, help="All dead letters, oldest first.")
@data_option
@json_option
def replay(letter_id: str | None, every: bool, data: Path, as_json: bool) -> int:
    """Replay dead letters byte for byte; those superseded by a newer version are removed.

    A dead letter that succeeds leaves the list. One that fails again returns to it, and its
    attempts add up. The exit status is 1 if any could not be sent; those stay in the list.
    """
    done = run_command(_replay(data, _which(letter_id, every)))
    if as_json:
        print_json(
            {
                "replayed": done.replayed,
                "stale": done.stale,
                "failed": [{"id": name, "error": why} for name, why in done.failed],
            }
        )
        return int(bool(done.failed))
    told = f"replayed {pluralize(done.replayed, 'letter')}"
    click.echo(
        told
        + (
            f"; {pluralize(done.stale, 'letter')} stale: a newer version is there"
            if done.stale
            else ""
        )
    )
    for name, why in done.failed:
        click.echo(f"not replayed: {name}: {truncate(why, _DETAIL_CHARACTERS)}", err=True)
    return int(bool(done.failed))


@dead.command(
    "drop", epilog=example("livedex dead drop 4f1c0a9be2d73c58", "livedex dead drop --all")
)
@click.argument("letter_id", metavar="[ID]", required=False)
@click.option("--all", "every", is_flag=True, help="All dead letters.")
@data_option
def drop(letter_id: str | None, every: bool, data: Path) -> int:
    """Drop dead letters permanently; their documents keep the version synced last."""
    click.echo(f"dropped {pluralize(run_command(_drop(data, _which(letter_id, every))), 'letter')}")
    return 0


def _which(letter_id: str | None, every: bool) -> str | None:
    """The id meant; None for every letter."""
    if every == (letter_id is not None):
        raise click.UsageError("Name one ID, or --all.", ctx=click.get_current_context())
    return letter_id


async def _all(data: Path) -> list[DeadLetter]:
    async with open_command_context(data) as s:
        return await s.letters.all()


async def _one(data: Path, letter_id: str) -> DeadLetter:
    async with open_command_context(data) as s:
        return await s.letters.find(letter_id)


async def _meant(s: AppContext, letter_id: str | None) -> AsyncIterator[DeadLetter]:
    """The letters meant, whole, one by one; of all letters those are left out that somebody else
    takes away meanwhile.
    """
    if letter_id is not None:
        yield await s.letters.find(letter_id)
        return
    for listed in await s.letters.all():
        try:
            yield await s.letters.find(listed.letter_id)
        except NotFoundError:
            continue


async def _replay(data: Path, letter_id: str | None) -> ReplayResult:
    from livedex.app.broker import open_broker
    from livedex.app.dead_letter_replay import replay_dead_letters

    async with open_command_context(data) as s, open_broker(s) as running:
        return await replay_dead_letters(s, running.broker, _meant(s, letter_id))


async def _drop(data: Path, letter_id: str | None) -> int:
    from livedex.app.dead_letter_replay import drop_dead_letter

    dropped = 0
    async with open_command_context(data) as s:
        async for letter in _meant(s, letter_id):
            await drop_dead_letter(s, letter)
            dropped += 1
    return dropped


def _line(x: DeadLetter) -> tuple[object, ...]:
    return (
        x.letter_id,
        x.stage,
        x.document_id,
        x.reason,
        x.attempts,
        format_time(x.at),
        truncate(x.detail, _DETAIL_CHARACTERS),
    )
