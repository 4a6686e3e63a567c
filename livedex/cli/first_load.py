"""What `livedex up` says and asks before a first load that has a price."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import click

from livedex.cli.event_loop import run_command
from livedex.cli.output import one_line, pluralize
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings

if TYPE_CHECKING:
    from livedex.app.first_load_price import FirstLoadPrice


def confirm_first_load(
    settings: Settings, sources: Sequence[FolderSource], data: Path, *, is_confirmed: bool
) -> None:
    """Print the plan and the price of first loads, and ask where they cost more than the settings
    allow without a question.

    Args:
        settings: of the installation.
        sources: that are to be watched.
        data: the data directory.
        is_confirmed: whether the user has confirmed already (`--yes`).

    Raises:
        ConfigError: the load costs too much, and nobody confirmed it.
    """
    from livedex.app.first_load_price import first_load_prices
    from livedex.pipeline.costs.money import rounded_amount

    loads = run_command(first_load_prices(settings, sources, data))
    if not loads:
        return
    for load in loads:
        click.echo(_line(load, settings.embedder))
    total = sum((load.cost for load in loads), Decimal(0))
    if total <= Decimal(str(settings.confirm_above_usd)) or is_confirmed:
        return
    amount = rounded_amount(total)["amount"]
    if sys.stdin.isatty() and sys.stdout.isatty():
        if click.confirm(f"embed this for about {amount} USD?", default=False):
            return
        raise ConfigError(f"the first load costs about {amount} USD and was not confirmed")
    raise ConfigError(
        f"the first load costs about {amount} USD, more than LIVEDEX_CONFIRM_ABOVE_USD "
        f"({settings.confirm_above_usd:g}): confirm it with `livedex up --yes`, or raise the limit"
    )


def _line(load: FirstLoadPrice, model: str) -> str:
    from livedex.pipeline.costs.money import rounded_amount

    plan, as_of = load.plan, load.price.as_of
    listed = "" if as_of is None else f", price list of {as_of.isoformat()}"
    return (
        f"{one_line(load.source.name)}: {pluralize(plan.counts['added'], 'document')} to add, "
        f"{pluralize(plan.chunks_to_embed, 'passage')} to embed, about {plan.tokens} tokens: "
        f"{rounded_amount(load.cost)['amount']} USD ({model}{listed})"
    )
