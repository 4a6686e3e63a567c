"""How commands print:

JSON, aligned columns, and texts of documents that cannot play tricks on a terminal.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

T = TypeVar("T")


def error_line(message: str) -> str:
    """A failure as one line, whatever stood in the message."""
    return f"livedex: {one_line(message)}"


def one_line(text: str) -> str:
    """Collapse white space in a text and remove terminal control characters."""
    return " ".join(printable(text).split())


def printable(text: str) -> str:
    """A text without control characters but line feeds and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def truncate(text: str, most: int) -> str:
    """The text in one line of at most `most` characters, cut between words where it is too long."""
    folded = one_line(text)
    if len(folded) <= most:
        return folded
    head = folded[: most - 1]
    return (head.rsplit(" ", 1)[0] if " " in head[most // 2 :] else head) + "…"


def print_json(value: Any) -> None:
    """An object as indented JSON on stdout; dataclasses and times as the API writes them."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z | orjson.OPT_SERIALIZE_NUMPY
    click.echo(orjson.dumps(value, option=options, default=_plain).decode())


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{type(value).__name__} is no JSON")


def print_list(
    rows: Sequence[T],
    *,
    name: str,
    what: str,
    item: Callable[[T], Any],
    line: Callable[[T], Sequence[object]],
    heads: Sequence[str],
    as_json: bool,
) -> None:
    """What a command lists: JSON, or a table.

    Args:
        rows: cells of each line.
        name: of the list in JSON.
        what: the entries are called, where there are none.
        item, line: an entry in JSON, and in the table.
        item: makes the JSON object of a row.
        line: makes the cells of a row.
        heads: titles of the columns.
        as_json: print JSON.
    """
    if as_json:
        print_json({name: [item(row) for row in rows]})
    elif rows:
        print_table([line(row) for row in rows], heads)
    else:
        click.echo(f"no {what}")


def print_table(rows: Sequence[Sequence[object]], heads: Sequence[str] = ()) -> None:
    """Rows in aligned columns; numbers to the right.

    Args:
        rows: cells of each line.
        heads: titles of the columns.
    """
    cells = [[one_line("" if cell is None else str(cell)) for cell in row] for row in rows]
    lines = [list(heads), *cells] if heads else cells
    if not lines:
        return
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    numeric = [
        bool(rows) and all(isinstance(row[i], int | float) for row in rows)
        for i in range(len(lines[0]))
    ]
    for line in lines:
        padded = [
            cell.rjust(w) if right else cell.ljust(w)
            for cell, w, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(padded).rstrip())


def format_time(at: datetime | None) -> str:
    """A time for people, to the second."""
    return "" if at is None else at.astimezone().isoformat(" ", "seconds")


def pluralize(number: int, one: str, many: str | None = None) -> str:
    """`1 document`, `2 documents`."""
    return f"{number} {one if number == 1 else many or one + 's'}"
