"""What the ledger keeps of a file to know it again without reading: how it was published, size,
times, inode, and the source's settings.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

CONTENT = "c"
PROVISIONAL = "p"
TOO_LARGE = "t"
UNREADABLE = "u"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A file at one moment.

    Attributes:
        how: `c` its content was published; `p` too, but while it was being written, so it is read
            again; `t` it was too large;
            `u` and the number of the system's error: it could not be read.
        size: bytes.
        place: times and inode. The change time is the kernel's own: no program sets it back.
        attributes: of the source's settings that each document carries, see `Folder`.
    """

    how: str
    size: int
    place: str
    attributes: str

    @classmethod
    def of(cls, how: str, found: os.stat_result, attributes: str) -> Fingerprint:
        """The fingerprint of a file as `stat` has it."""
        return cls(
            how,
            found.st_size,
            f"{found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}",
            attributes,
        )

    @classmethod
    def parse(cls, text: str) -> Fingerprint:
        """What `encode` made."""
        how, size, mtime, ctime, inode, attributes = text.split(" ")
        return cls(how, int(size), f"{mtime} {ctime} {inode}", attributes)

    @property
    def inode_and_attributes(self) -> str:
        """The last two words of the encoded form, inode and settings: other names of the same file
        have them too.
        """
        return f"{self.place.rsplit(' ', 1)[1]} {self.attributes}"

    def encode(self) -> str:
        """As the ledger keeps it: two are equal when nothing has changed."""
        return f"{self.how} {self.size} {self.place} {self.attributes}"
