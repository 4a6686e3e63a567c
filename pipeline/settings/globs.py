"""Globs in the settings, those of `.gitignore`: which of them nothing could ever match."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOWHERE = re.compile(
    r"^\.{1,2}/|/\.{1,2}(?:/|$)|^\.{1,2}$|^[A-Za-z][A-Za-z0-9+.-]*://|^//|^[A-Za-z]:\\|\\(?"
    r":[A-Za-z0-9]|\*\*)"
)


def glob_problem(name: str, globs: Sequence[str]) -> str | None:
    """What is wrong with a list of globs on relative paths; None: nothing.

    Args:
        name: of the setting.
    """
    for glob in globs:
        if not glob.strip() or glob.startswith("#") or _NOWHERE.search(glob):
            return (
                f"{name} holds a glob that nothing matches: they are relative to the top, as in "
                f'{name} = ["guides/**"]'
            )
    if globs and all(len(glob) > 1 and glob.startswith("!") for glob in globs):
        return f"{name} holds nothing but exceptions (!): name first what they are exceptions from"
    return None
