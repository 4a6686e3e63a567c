"""Validation of globs in the settings, which have the syntax of `.gitignore`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NOWHERE = re.compile(
    r"^\.{1,2}/|/\.{1,2}(?:/|$)|^\.{1,2}$|^[A-Za-z][A-Za-z0-9+.-]*://|^//|^[A-Za-z]:\\|\\(?"
    r":[A-Za-z0-9]|\*\*)"
)


def glob_problem(name: str, globs: Sequence[str]) -> str | None:
    """Return what is wrong with globs for relative paths; None: nothing.

    Args:
        name: of the setting.
        globs: its value.
    """
    for glob in globs:
        if not glob.strip() or glob.startswith("#") or _NOWHERE.search(glob):
            return (
                f"{name} contains a glob that matches no path: globs are relative to the top "
                f'folder, as in {name} = ["guides/**"]'
            )
    if globs and all(len(glob) > 1 and glob.startswith("!") for glob in globs):
        return f"{name} contains only exceptions (!): add the globs to which they apply first"
    return None
