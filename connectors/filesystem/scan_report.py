"""What a scan of a folder found and did, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_MOST_SHOWN = 3


@dataclass
class ScanReport:
    """What a scan found and did.

    Attributes:
        added, changed, deleted: documents published, files that were still being written included.
        moved: of those added, how many are a file that is gone elsewhere.
        unchanged: files that were as they had been.
        unreadable: files that cannot be read, and files known in folders that cannot be listed.
        withheld: deletes that wait for a confirmation, of this scan or of earlier ones.
        unmounted: mount points that were seen and are not mounted; the deletes below are among
            those withheld.
        failed: files that could not be published, with what is wrong.
        left_out: files that are no documents, see `SkippedFiles.as_object`.
        problem: why nothing could be said about the folder; the counts then stand for what was done
            before.
        waiting: paths that were still being written.
    """

    source: str = ""
    added: int = 0
    changed: int = 0
    moved: int = 0
    deleted: int = 0
    unchanged: int = 0
    unreadable: int = 0
    withheld: int = 0
    unmounted: list[bytes] = field(default_factory=list)
    failed: dict[bytes, str] = field(default_factory=dict)
    left_out: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    known: int = 0
    waiting: set[bytes] = field(default_factory=set)
    folders: list[bytes] = field(default_factory=list)

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        counts = (
            f"{self.added} added, {self.changed} changed, {self.deleted} deleted, "
            f"{self.unchanged} unchanged, {self.unreadable} unreadable"
        )
        return f"{counts}, {self.withheld} deletes withheld" if self.withheld else counts

    @property
    def operator_message(self) -> str | None:
        """What to do about withheld deletes and files that could not be published; None where
        there are none.
        """
        parts = []
        if self.withheld:
            named = [ascii(path)[2:-1] for path in self.unmounted[:_MOST_SHOWN]]
            where = (
                f" ({', '.join(named)} {'is' if len(self.unmounted) == 1 else 'are'} not mounted)"
                if named
                else ""
            )
            parts.append(
                f"{self.withheld} of {self.known} files are gone{where} and their documents "
                "were kept: bring the files back, "
                f"or run `livedex sources confirm {self.source}` (or `livedex verify "
                "--repair`) if they are to go."
            )
        for path, what in list(self.failed.items())[:_MOST_SHOWN]:
            parts.append(f"{ascii(path)[2:-1]}: {what}.")
        if len(self.failed) > _MOST_SHOWN:
            parts.append(f"{len(self.failed) - _MOST_SHOWN} more files could not be published.")
        return " ".join(parts) or None
