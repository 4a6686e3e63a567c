"""`livedex plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option
from livedex.cli.output import print_json, print_table
from livedex.pipeline.errors import ConfigError

if TYPE_CHECKING:
    from livedex.app.plan import Plan
    from livedex.pipeline.settings.folder_source import FolderSource
    from livedex.pipeline.settings.settings import Settings

_KINDS = ("added", "changed", "moved", "deleted")


@click.command("plan", epilog=example("livedex plan docs", "livedex plan docs --json"))
@click.argument("folder", type=click.Path(path_type=Path))
@data_option
@json_option
def plan(folder: Path, data: Path, as_json: bool) -> int:
    """Show what syncing FOLDER would change and cost, without changing or embedding anything."""
    if not folder.exists():
        raise ConfigError(f"the folder {folder} does not exist: name an existing folder")
    found = run_command(_plan(folder, data))
    if as_json:
        print_json(found)
        return 0
    print_table([(kind, found[kind]) for kind in (*_KINDS, "unchanged")], ("documents", ""))
    if found["deletes_withheld"]:
        click.echo(
            "the deletes would be withheld because there are too many: restore the files, "
            "or delete the documents with `livedex verify --repair`"
        )
    from livedex.connectors.filesystem.skipped_files import skipped_files_summary

    for line in skipped_files_summary(found["left_out"]):
        click.echo(line)
    click.echo()
    names = ("chunks_reused", "chunks_to_embed", "characters_to_embed", "tokens")
    print_table([(name.replace("_", " "), found[name]) for name in names], ("to embed", ""))
    click.echo()
    cost = found["price"]
    click.echo(_price_line(cost))
    return 0


def _price_line(cost: dict[str, str] | None) -> str:
    from livedex.pipeline.costs.money import FREE

    if cost is None:
        return "price: unknown for this embedder"
    return (
        "price: free (the model runs on your own machine)"
        if cost == FREE
        else f"price: {cost['amount']} {cost['currency']}"
    )


async def _plan(path: Path, data: Path) -> dict[str, Any]:
    from livedex.app.plan import plan_with_index, plan_without_index
    from livedex.pipeline.settings.settings import load_settings
    from livedex.pipeline.store.embedded.server import is_initialised

    settings = load_settings(Path.cwd())
    source = _source(path, settings, data)
    if settings.database_url is None and not is_initialised(data):
        return _shown(await plan_without_index(source, settings, data), settings)
    async with open_command_context(data) as s:
        return _shown(await plan_with_index(source, s), settings)


def _source(path: Path, settings: Settings, data: Path) -> FolderSource:
    """The source that is this folder, or the one that `livedex up` would make of it."""
    from livedex.app.wiring import watched_folders
    from livedex.cli.up import folder_sources

    for source in watched_folders(settings, data):
        if source.path.resolve() == path.resolve():
            return source
    return folder_sources([path], settings.model_copy(update={"source": ()}), data)[0]


def _shown(found: Plan, settings: Settings) -> dict[str, Any]:
    from livedex.app.plan import estimate_price

    return {
        **{kind: found.counts[kind] for kind in _KINDS},
        "unchanged": found.unchanged,
        "deletes_withheld": found.withheld,
        "left_out": found.left_out,
        "chunks_reused": len(found.known),
        "chunks_to_embed": found.chunks_to_embed,
        "characters_to_embed": found.characters_to_embed,
        "tokens": found.tokens,
        "price": estimate_price(settings, found.tokens),
    }
