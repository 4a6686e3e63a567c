"""The options that several commands share, and the form of their examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from livedex.pipeline.names import is_reserved

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")
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


def parse_json_object(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> dict[str, Any] | None:
    """Read a JSON object given on the command line."""
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError as exc:
        raise click.BadParameter(f"{value!r} is not valid JSON: {exc}", ctx, param) from exc
    if not isinstance(found, dict):
        raise click.BadParameter(f"{value!r} is not a JSON object", ctx, param)
    return found


def validate_request(model: type[M], fields: Mapping[str, Any]) -> M:
    """Make the body of an API call from options.

    Raises:
        RejectedError: a field is invalid; the message names the first one.
    """
    from pydantic import ValidationError

    from livedex.pipeline.errors import RejectedError

    try:
        return model(**fields)
    except ValidationError as exc:
        first = exc.errors(include_url=False)[0]
        message = first["msg"].removeprefix("Value error, ")
        raise RejectedError(f"{'.'.join(map(str, first['loc']))}: {message}") from exc


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
