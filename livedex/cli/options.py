"""The options that several commands share, and the form of their examples."""

from __future__ import annotations

from pathlib import Path

import click

from livedex.pipeline.names import is_reserved

DATA = Path(".livedex")

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=DATA,
    show_default=True,
    help="Data directory of `livedex up`.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def example(*lines: str) -> str:
    """The end of a command's help: how it is called.

    Args:
        lines: command lines, e.g. `livedex status --wait 60`.
    """
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def parse_tenant_name(
    context: click.Context, option: click.Parameter, value: str | None
) -> str | None:
    """What may be a tenant's name: 1 to 200 printable characters, without blanks at its ends."""
    if value is not None and not (
        value.isprintable() and value == value.strip() and 1 <= len(value) <= 200
    ):
        raise click.BadParameter(
            "1 to 200 printable characters, without blanks at the ends", ctx=context, param=option
        )
    if value is not None and is_reserved(value):
        raise click.BadParameter(
            f"{value} is reserved: it holds the dead letters of records that do not say "
            "whose they are",
            ctx=context,
            param=option,
        )
    return value
