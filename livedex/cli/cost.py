"""`livedex cost`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from livedex.cli.command_context import open_command_context
from livedex.cli.event_loop import run_command
from livedex.cli.options import data_option, example, json_option, parse_tenant_name
from livedex.cli.output import pluralize, print_json, print_table
from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.model import TenantId

if TYPE_CHECKING:
    from livedex.app.cost_report import CostGroup

_BY = ("tenant", "source", "model", "day")
_DEFAULT_BY = ("tenant", "source", "model")
_BAR = 30
_MAX_BARS = 31
_WEEK = 7
_BLOCKS = " ▏▎▍▌▋▊▉█"
_HEADS = ("texts", "tokens", "cost USD", "reused", "saved USD", "queries", "queries USD")


@click.command(
    "cost",
    epilog=example("livedex cost", "livedex cost --days 7 --by model", "livedex cost --json"),
)
@click.option(
    "--days",
    type=click.IntRange(1, 366),
    default=30,
    show_default=True,
    help="Days in UTC, today included.",
)
@click.option("--tenant", callback=parse_tenant_name, help="Only this tenant; default: all.")
@click.option("--source", help="Only documents of this source.")
@click.option("--model", help="Only this model.")
@click.option(
    "--by",
    multiple=True,
    type=click.Choice(_BY),
    help="Group the rows by this; may be given more than once. [default: tenant, source, model]",
)
@data_option
@json_option
def cost(
    days: int,
    tenant: str | None,
    source: str | None,
    model: str | None,
    by: tuple[CostGroup, ...],
    data: Path,
    as_json: bool,
) -> int:
    """Show what embedding cost, day by day, and what was reused instead."""
    groups: Sequence[CostGroup] = tuple(dict.fromkeys(by)) or _DEFAULT_BY  # type: ignore[assignment]
    found, by_day = run_command(_report(data, tenant, days, groups, source, model))
    if as_json:
        print_json({**found, "days": by_day})
        return 0
    _print(found, by_day, groups)
    return 0


async def _report(
    data: Path,
    tenant: str | None,
    days: int,
    by: Sequence[CostGroup],
    source: str | None,
    model: str | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from livedex.app.cost_report import cost_report, costs_by_day

    async with open_command_context(data) as s:
        tenants = await s.database.tenants()
        if tenant is not None:
            if tenant not in tenants:
                raise NotFoundError(
                    f"there is no tenant {tenant}: `livedex tenants list` shows what there is"
                )
            tenants = [TenantId(tenant)]
        given: dict[str, Any] = {"days": days, "source": source, "model": model}
        found = await cost_report(s, tenants, by=by, **given)
        daily = await cost_report(s, tenants, by=("day",), **given)
    del found["next_cursor"]
    return found, costs_by_day(daily["costs"], date.fromisoformat(found["to"]), days)


def _print(
    found: Mapping[str, Any], days: Sequence[Mapping[str, Any]], by: Sequence[CostGroup]
) -> None:
    price = found["usd_per_million_tokens"]
    as_of = f" (price list of {found['price_as_of']})" if found["price_as_of"] else ""
    if price is None:
        shown = "unknown: state it in LIVEDEX_PRICES"
    else:
        shown = "free" if price == "0" else f"{price} USD for a million tokens{as_of}"
    click.echo(f"{found['model']}: {shown}")
    click.echo(f"{found['from']} to {found['to']} (UTC)")
    click.echo()
    if not found["costs"]:
        click.echo("nothing was embedded in these days")
        return
    has_blocks = (sys.stdout.encoding or "").lower().startswith("utf")
    for line in plot_days(days, has_blocks=has_blocks):
        click.echo(line)
    click.echo()
    rows = [(*(row[name] or "-" for name in by), *_columns(row)) for row in found["costs"]]
    total = (*("total" if n == 0 else "" for n, _ in enumerate(by)), *_columns(found["total"]))
    print_table([*rows, total] if len(rows) > 1 else rows, (*by, *_HEADS))
    if unpriced := found["total"]["unpriced_tokens"]:
        click.echo()
        click.echo(f"{unpriced:,} tokens have no known price and are not in these sums")


def _columns(row: Mapping[str, Any]) -> tuple[object, ...]:
    return (
        row["texts"],
        row["tokens"],
        _amount(row["cost"]),
        row["reused"],
        _amount(row["saved_cost"]),
        row["queries"],
        _amount(row["query_cost"]),
    )


def _amount(amount: Mapping[str, str] | None) -> str:
    from livedex.pipeline.costs.money import rounded_amount

    return "unknown" if amount is None else rounded_amount(Decimal(amount["amount"]))["amount"]


def plot_days(days: Sequence[Mapping[str, Any]], *, has_blocks: bool = True) -> list[str]:
    """Return a bar for each day, or for each week of a longer time: of its cost, or of its tokens
    where nothing had a price.

    Args:
        days: each with `day`, `cost`, `query_cost`, `tokens` and `query_tokens`, oldest first; days
            before the first with tokens are left out.
        has_blocks: whether the terminal shows block characters.
    """
    used = [n for n, day in enumerate(days) if day["tokens"] or day["query_tokens"]]
    days = days[used[0] if used else -1 :]
    step = 1 if len(days) <= _MAX_BARS else _WEEK
    parts = [days[max(0, end - step) : end] for end in range(len(days), 0, -step)][::-1]
    costs = [sum((_spent(day) for day in part), Decimal(0)) for part in parts]
    tokens = [sum(day["tokens"] + day["query_tokens"] for day in part) for part in parts]
    values = costs if any(costs) else [Decimal(each) for each in tokens]
    highest = max(values) or Decimal(1)
    lines = []
    for part, cost_of_part, tokens_of_part, value in zip(parts, costs, tokens, values, strict=True):
        amount = f"{_amount({'amount': str(cost_of_part)})} USD  " if any(costs) else ""
        told = f"{amount}{pluralize(tokens_of_part, 'token')}" if tokens_of_part else ""
        lines.append(
            f"{part[0]['day']}  {_bar(float(value / highest), has_blocks)}  {told}".rstrip()
        )
    return lines


def _spent(day: Mapping[str, Any]) -> Decimal:
    return sum(
        (Decimal(day[name]["amount"]) for name in ("cost", "query_cost") if day[name]), Decimal(0)
    )


def _bar(share: float, has_blocks: bool) -> str:
    if not has_blocks:
        return ("#" * max(round(share * _BAR), 1 if share else 0)).ljust(_BAR)
    eighths = max(round(share * _BAR * 8), 1 if share else 0)
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (_BLOCKS[rest] if rest else "")).ljust(_BAR)
