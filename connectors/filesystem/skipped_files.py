"""Files of a folder that are no documents, counted: formats without a reader, by extension, and
files that hold credentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from livedex.connectors.filesystem.document_ids import path_to_text
from livedex.connectors.filesystem.file_matcher import SkipReason

_MAX_EXTENSIONS, _MAX_NAMES = 200, 20
_LONGEST_EXTENSION = 12
NO_EXTENSION = "without extension"


@dataclass
class SkippedFiles:
    """What a walk has passed by.

    Attributes:
        formats: files of formats that cannot be read, by extension in lower case.
        secrets: files that hold credentials; `names` the first of them.
    """

    formats: Counter[str] = field(default_factory=Counter)
    secrets: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, path: bytes, why: SkipReason) -> None:
        """Count a file."""
        if why == "secret":
            self.secrets += 1
            if len(self.names) < _MAX_NAMES:
                self.names.append(path_to_text(path))
        elif why == "format":
            self.formats[_extension(path) if len(self.formats) < _MAX_EXTENSIONS else "others"] += 1

    def as_object(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "formats": dict(self.formats.most_common()),
            "secrets": self.secrets,
            "secret_files": self.names,
        }


def skipped_files_summary(found: Mapping[str, Any], *, most: int = 8) -> list[str]:
    """Return what `SkippedFiles.as_object` says in sentences; none where nothing was left out."""
    formats: Mapping[str, int] = found.get("formats") or {}
    lines = []
    if formats:
        total = sum(formats.values())
        shown = [
            f"{extension} {number:,}"
            for extension, number in sorted(formats.items(), key=lambda item: -item[1])[:most]
        ]
        others = [f"{len(formats) - most} other kinds"] if len(formats) > most else []
        lines.append(
            f"{total:,} file{'s' * (total != 1)} of formats that can't be read: "
            f"{', '.join([*shown, *others])}"
        )
    if secrets := found.get("secrets"):
        names = [ascii(name)[1:-1] for name in found.get("secret_files", [])[:most]]
        more = [f"{secrets - len(names)} more"] if secrets > len(names) else []
        lines.append(
            f"{secrets:,} file{'s' * (secrets != 1)} left out because the "
            f"name{'s' * (secrets != 1)} look{'s' * (secrets == 1)} like credentials"
            f" ({', '.join([*names, *more])}); an `include` that names them opens them"
        )
    return lines


def _extension(path: bytes) -> str:
    name = path_to_text(path.rsplit(b"/", 1)[-1])
    stem, dot, extension = name.rpartition(".")
    return (
        f".{extension.lower()}"
        if dot and stem and extension and len(extension) <= _LONGEST_EXTENSION
        else NO_EXTENSION
    )
