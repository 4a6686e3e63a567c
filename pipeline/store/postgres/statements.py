"""Named SQL statements from `.sql` files.

A block begins with `-- name: the_name`; the comment lines below it document each parameter (`-- $1
type, meaning`). `{vectors}` stands for the table of a generation: its number is the only value that
is ever inserted into SQL text.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

from livedex.pipeline.model import GenerationId

_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)


@cache
def all_statements() -> dict[str, str]:
    """Return all statements by name.

    Raises:
        ValueError: two statements have the same name.
    """
    found: dict[str, str] = {}
    for file in sorted(
        resources.files("livedex.pipeline.store").joinpath("sql").iterdir(), key=lambda f: f.name
    ):
        if not file.name.endswith(".sql"):
            continue
        parts = _NAME.split(file.read_text("utf-8"))
        for name, body in zip(parts[1::2], parts[2::2], strict=True):
            if name in found:
                raise ValueError(f"two statements have the name {name}")
            found[name] = body.strip().rstrip(";")
    return found


@cache
def sql(name: str, generation: GenerationId | None = None) -> str:
    """Return the text of a statement.

    Args:
        name: of the statement.
        generation: whose vectors it reads or writes; None: it uses no vectors.

    Raises:
        ValueError: the statement needs a generation.
    """
    text = all_statements()[name]
    if "{vectors}" not in text:
        return text
    if generation is None:
        raise ValueError(f"{name} needs a generation")
    return text.replace("{vectors}", f"vectors_{int(generation)}")
