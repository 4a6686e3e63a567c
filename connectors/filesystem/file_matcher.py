"""Which files of a folder are documents.

Globs are those of `.gitignore`, in `include` as in `exclude`: `*.md` stands for any depth, `/` at
the front ties to the folder, `**` crosses folders, `!` makes an exception, the last line that
matches counts, and nothing comes back from a folder that is left out as a whole. Whatever they say,
what an editor or a download leaves for a moment is no document, nor is what lies in the data
directory. Hidden files and folders, and files that hold credentials, are left out unless a line of
`include` names them (see `glob_names`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import pathspec

from livedex.connectors.filesystem.credential_files import is_credential_file
from livedex.connectors.filesystem.document_ids import path_to_text
from livedex.connectors.filesystem.exclusions import Exclusions, anchored_globs
from livedex.connectors.filesystem.hidden_file_rules import HiddenFileRules
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.folder_source import FolderSource

# backups, Office, Emacs, LibreOffice, and 4913, by which Vim tests whether it may write
_TEMPORARY = re.compile(
    rb"""(?: .*~ | ~\$.* | \#.*\# | \.\#.* | \.~lock\..* | 4913
       | .*\.(?: sw[a-z] | tmp | temp | part | partial | crdownload | download | kate-swp | !ut
                | aria2 )
       | .*___jb_(?: tmp | old )___ | .*\.sb-[0-9a-f]+-\w+ )""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


SkipReason: TypeAlias = Literal["excluded", "secret", "format"]
"""Why a file is no document: by the settings, its place or what it is for the moment; it holds
credentials; there is no reader for it.
"""


class FileMatcher:
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
            source: the source, as the settings describe it.
            root: the folder, absolute.
            readable: whether there is a reader for a file of this name; used where `include` is
                empty.
            ignored: paths that are never documents, with what is below them.
            only: the one file that is meant, where the source is a single file.

        Raises:
            ConfigError: a glob without sense.
        """
        self._include = _compile(source, "include", source.include) if source.include else None
        self._exclude = Exclusions(_compile(source, "exclude", anchored_globs(source.exclude)))
        self._openings = HiddenFileRules(source.include)
        self._readable = readable
        self._only = only
        self._ignored = frozenset(_below(root, path) for path in ignored) - {None}

    def is_document(self, path: bytes) -> bool:
        """Whether a file of this relative path is one, given that its folder is entered."""
        return self.skip_reason(path) is None

    def skip_reason(self, path: bytes) -> SkipReason | None:
        """Return why a file of this relative path is no document, given that its folder is
        entered; None where it is one.
        """
        name = path.rsplit(b"/", 1)[-1]
        if self._only is not None:
            return None if path == self._only else "excluded"
        if _TEMPORARY.fullmatch(name) or path in self._ignored:
            return "excluded"
        text = _glob_subject(path)
        if self._exclude.excludes(text):
            return "excluded"
        if self._include is not None and not self._include.match_file(text):
            return "excluded"
        hidden, secret = _is_hidden(path), is_credential_file(text)
        if (hidden or secret) and not self._openings.opens(text):
            return "secret" if secret and (not hidden or self._include is not None) else "excluded"
        return (
            None
            if self._include is not None or self._readable(text.rsplit("/", 1)[-1])
            else "format"
        )

    def enters_directory(self, path: bytes) -> bool:
        """Whether a folder of this relative path is looked into, given that the folder above is."""
        if self._only is not None or path in self._ignored:
            return False
        if _is_hidden(path) and not self._openings.leads_below(_glob_subject(path)):
            return False
        return not self._exclude.excludes(_glob_subject(path) + "/")

    def is_reachable(self, path: bytes) -> bool:
        """Whether every folder above this path is entered."""
        at = path.find(b"/")
        while at >= 0:
            if not self.enters_directory(path[:at]):
                return False
            at = path.find(b"/", at + 1)
        return True

    def selects(self, path: bytes) -> bool:
        """Whether a file of this path is a document: reached, and one."""
        return self.is_reachable(path) and self.is_document(path)


def _compile(source: FolderSource, field: str, globs: Sequence[str]) -> pathspec.GitIgnoreSpec:
    try:
        return pathspec.GitIgnoreSpec.from_lines(globs)
    except ValueError as exc:
        raise ConfigError(
            f"source {source.name}: {field} holds a glob without sense: {exc}"
        ) from exc


def _is_hidden(path: bytes) -> bool:
    return path.startswith(b".") or b"/." in path


def _glob_subject(path: bytes) -> str:
    # a dot of the compiled globs stops at a line feed
    return path_to_text(path).replace("\n", "\r")


def _below(root: Path, path: Path) -> bytes | None:
    """A path relative to the folder; None where it is not in it."""
    for top, inner in ((root, path.absolute()), (root.resolve(), path.resolve())):
        if inner.is_relative_to(top) and inner != top:
            return os.fsencode(inner.relative_to(top))
    return None
