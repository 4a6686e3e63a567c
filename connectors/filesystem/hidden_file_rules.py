"""What a glob names: hidden files and folders, and files with credentials, are opened by a glob
that says so, never by a wildcard.

As in a shell, a part of a path that begins with a dot is matched only by a part of the glob that
begins with one: `.github/**/*.md` opens `.github` and nothing else, and not `.github/.cache`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pathspec

from livedex.connectors.filesystem.credential_files import (
    glob_names_credentials,
    is_credential_file,
)

_ANY_DEPTH = "**"


@dataclass(frozen=True)
class _Part:
    """One part of a glob, between two slashes."""

    text: str

    @property
    def is_any_depth(self) -> bool:
        return self.text == _ANY_DEPTH

    @cached_property
    def _spec(self) -> pathspec.GitIgnoreSpec:
        return pathspec.GitIgnoreSpec.from_lines([f"/{self.text}"])

    def matches(self, name: str) -> bool:
        if name.startswith(".") and not self.text.lstrip("\\").startswith("."):
            return False
        return self._spec.match_file(name)


class IncludeGlob:
    """One line of `include`, by its parts."""

    def __init__(self, line: str) -> None:
        self.is_exception = line.startswith("!")
        text = line[1:] if self.is_exception else line
        self._spec = pathspec.GitIgnoreSpec.from_lines([text])
        self.allows_credentials = glob_names_credentials(text)
        anchored = "/" in text.rstrip("/")
        parts = [part for part in text.strip("/").split("/") if part]
        if not anchored:
            parts = [_ANY_DEPTH, *parts]
        if parts[-1:] == [_ANY_DEPTH]:
            parts = parts[:-1]  # what is below is matched anyway
        self._parts = [_Part(part) for part in parts]
        self._end = len(self._parts)

    def matches(self, path: str) -> bool:
        """Return whether a file of this path matches, hidden or not."""
        return self._spec.match_file(path)

    def names(self, path: str) -> bool:
        """Return whether a pattern that starts with a dot matches every hidden part of the path."""
        return self._end in self._after(path.split("/"))

    def leads_below(self, folder: str) -> bool:
        """Return whether this glob may name something in a folder."""
        return bool(self._after(folder.split("/")))

    def _after(self, names: Sequence[str]) -> set[int]:
        """The places in the glob that can be reached once these names were matched; the end stays
        the end for what is below.
        """
        at = self._skipping({0})
        for name in names:
            at = self._skipping({after for place in at for after in self._step(place, name)})
        return at

    def _step(self, place: int, name: str) -> list[int]:
        if place == self._end or self._parts[place].is_any_depth:
            return [] if name.startswith(".") else [place]
        return [place + 1] if self._parts[place].matches(name) else []

    def _skipping(self, places: set[int]) -> set[int]:
        """With the places after a `**` that stands for no folder."""
        found = set(places)
        for place in places:
            while place < self._end and self._parts[place].is_any_depth:
                place += 1
                found.add(place)
        return found


class HiddenFileRules:
    """Decides about hidden files and files with credentials, by the globs of `include`."""

    def __init__(self, include: Sequence[str]) -> None:
        self._globs = [IncludeGlob(line) for line in include if line.strip()]

    def opens(self, path: str) -> bool:
        """Return whether the last glob that counts for this path opens it.

        Args:
            path: of a file with hidden parts, or that holds credentials.
        """
        needs_secrets, opened = is_credential_file(path), False
        for glob in self._globs:
            if not glob.matches(path):
                continue
            if glob.is_exception:
                opened = False
            elif glob.names(path) and (glob.allows_credentials or not needs_secrets):
                opened = True
        return opened

    def leads_below(self, folder: str) -> bool:
        """Return whether a glob may open something in a hidden folder."""
        return any(glob.leads_below(folder) for glob in self._globs if not glob.is_exception)
