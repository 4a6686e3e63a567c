"""Which files of a folder are documents.

Globs are those of `.gitignore`: `*.md` stands for any depth, `/` at the front ties to the folder, `**` crosses folders. Whatever they
say, what an editor or a download leaves for a moment is no document, nor is what lies in the data directory. Names that begin with a dot
are left out with all that is below them, unless `include` names such a name itself (`.github/**/*.md`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pathspec

from connectors.filesystem.names import readable_path
from pipeline.errors import ConfigError
from pipeline.settings import FolderSource

_TEMPORARY = re.compile(
    rb"""(?: .*~ | ~\$.* | \#.*\# | \.\#.* | \.~lock\..* | 4913      # backups, Office, Emacs, LibreOffice, Vim's try whether it may write
       | .*\.(?: sw[a-z] | tmp | temp | part | partial | crdownload | download | kate-swp | !ut | aria2 )
       | .*___jb_(?: tmp | old )___ | .*\.sb-[0-9a-f]+-\w+ )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


class Matcher:
    """Decides by names alone; nothing here looks at the disk."""

    def __init__(
        self,
        source: FolderSource,
        root: Path,
        *,
        readable: Callable[[str], bool],
        ignored: Sequence[Path] = (),
        only: bytes | None = None,
    ) -> None:
        """Compile the globs.

        Args:
            root: the folder, absolute.
            readable: whether there is a reader for a file of this name; used where `include` is empty.
            ignored: paths that are never documents, with what is below them.
            only: the one file that is meant, where the source is a single file.

        Raises:
            ConfigError: a glob without sense.
        """
        self._include = _compile(source, "include", source.include) if source.include else None
        self._exclude = _compile(source, "exclude", source.exclude) if source.exclude else None
        self._hidden = any(part.startswith(".") and part.strip(".") for glob in source.include for part in glob.split("/"))
        self._readable = readable
        self._only = only
        self._ignored = frozenset(_below(root, path) for path in ignored) - {None}

    def is_document(self, path: bytes) -> bool:
        """Whether a file of this relative path is one, given that its folder is entered."""
        name = path.rsplit(b"/", 1)[-1]
        if self._only is not None:
            return path == self._only
        if _TEMPORARY.fullmatch(name) or (not self._hidden and name.startswith(b".")) or path in self._ignored:
            return False
        text = _one_line(path)
        if self._exclude is not None and self._exclude.match_file(text):
            return False
        return self._readable(text.rsplit("/", 1)[-1]) if self._include is None else self._include.match_file(text)

    def enters(self, path: bytes) -> bool:
        """Whether a folder of this relative path is looked into, given that the folder above is."""
        if self._only is not None or path in self._ignored:
            return False
        if not self._hidden and path.rsplit(b"/", 1)[-1].startswith(b"."):
            return False
        return self._exclude is None or not self._exclude.match_file(_one_line(path) + "/")

    def reaches(self, path: bytes) -> bool:
        """Whether every folder above this path is entered."""
        at = path.find(b"/")
        while at >= 0:
            if not self.enters(path[:at]):
                return False
            at = path.find(b"/", at + 1)
        return True

    def covers(self, path: bytes) -> bool:
        """Whether a file of this path is a document: reached, and one."""
        return self.reaches(path) and self.is_document(path)


def _compile(source: FolderSource, field: str, globs: Sequence[str]) -> pathspec.GitIgnoreSpec:
    try:
        return pathspec.GitIgnoreSpec.from_lines(globs)
    except ValueError as exc:
        raise ConfigError(f"source {source.name}: {field} holds a glob without sense: {exc}") from exc


def _one_line(path: bytes) -> str:
    return readable_path(path).replace("\n", "\r")  # a dot of the compiled globs stops at a line feed


def _below(root: Path, path: Path) -> bytes | None:
    """A path relative to the folder; None where it is not in it."""
    for top, inner in ((root, path.absolute()), (root.resolve(), path.resolve())):
        if inner.is_relative_to(top) and inner != top:
            return os.fsencode(inner.relative_to(top))
    return None
