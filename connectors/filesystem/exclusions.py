"""What `exclude` leaves out, decided one level at a time as git does: a file or a folder by itself,
never by the folder above it.

Whoever asks goes down from the top and stops at a folder that is left out; so nothing below it
comes back, and an exception for a folder lets its files in. pathspec compiles each line; its own
answer for a whole path does not tell the two apart (`*`, `!*/`, `!*.md`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pathspec


def anchored_globs(globs: Sequence[str]) -> list[str]:
    """Return globs that match the same as these, each written so that its expression ends where
    the name of what it matches ends.
    """
    return [_exact(glob) for glob in globs]


def _exact(glob: str) -> str:
    sign, body = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
    stripped = body.rstrip() if not body.rstrip().endswith("\\") else body
    if stripped in ("*", "**"):
        body = "?*"
    elif stripped in ("*/", "**/"):
        body = "?*/"
    elif stripped.endswith("/**"):
        body = stripped + "/*"
    elif stripped.endswith("/**/"):
        body = stripped + "*/"
    return sign + body


class Exclusions:
    """Decides about one file or folder at a time.

    Args:
        spec: compiled from `exact_globs`.
    """

    def __init__(self, spec: pathspec.GitIgnoreSpec) -> None:
        self._rules = [
            (pattern.regex, bool(pattern.include))
            for pattern in spec.patterns
            if pattern.regex is not None
        ][::-1]

    def excludes(self, path: str) -> bool:
        """Return whether the last line that matches a file, or a folder with `/` at its end,
        leaves it out; what is above it is not looked at.
        """
        for regex, excludes in self._rules:
            found = regex.match(path)
            if found is not None and found.end() == len(path):
                return excludes
        return False
