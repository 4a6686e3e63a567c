"""On whose behalf somebody reads, in tests: everything, or what some principals may read, and how
the API is asked so.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PRINCIPALS = ["user:ann", "group:h,r", 'a "b" {c}', "d\u00e9j\u00e0'--", "null"]
_HIDDEN = re.compile(r"only([0-9]*)q")

Acl = Sequence[str] | None


def random_acl(rng: random.Random) -> list[str] | None:
    """Rights as they are sent; `*` lets everybody in."""
    if rng.random() < 0.4:
        return None
    return rng.sample([*PRINCIPALS, "*"], rng.choice([0, 1, 1, 1, 2, 3]))


def stored_acl(acl: Acl) -> tuple[str, ...] | None:
    """Rights as they are kept."""
    return None if acl is None or "*" in acl else tuple(sorted(acl))


def acl_marker(acl: Acl) -> str:
    """A word that names rights, for texts that stand under them; empty where everybody may read."""
    kept = stored_acl(acl)
    return "" if kept is None else f"only{''.join(str(PRINCIPALS.index(name)) for name in kept)}q"


@dataclass(frozen=True, slots=True)
class ActingReader:
    """Who reads.

    Attributes:
        principals: None: everything is read.
        said: whether the request names them; a key of which nothing is said reads what is for
            everybody.
    """

    principals: frozenset[str] | None = None
    said: bool = True

    def may_read(self, acl: Acl) -> bool:
        """Whether it may read under these rights."""
        kept = stored_acl(acl)
        return self.principals is None or kept is None or bool(self.principals & set(kept))

    def told(self, acl: Acl) -> list[str] | None:
        """The rights as they are told it."""
        kept = stored_acl(acl)
        return (
            None
            if kept is None
            else [name for name in kept if self.principals is None or name in self.principals]
        )

    def forbidden(self, text: str) -> list[str]:
        """Words in a text that name rights under which it does not read."""
        if self.principals is None:
            return []
        mine = {str(PRINCIPALS.index(name)) for name in self.principals}
        return [match[0] for match in _HIDDEN.finditer(text) if not mine & set(match[1])]

    def query(self) -> list[tuple[str, str]]:
        """What the query of a request says of it."""
        return [("principals", name) for name in sorted(self.principals or ())] if self.said else []

    def body(self) -> dict[str, Any]:
        """What the body of a search says of it."""
        return (
            {}
            if self.principals is None or not self.said
            else {"principals": sorted(self.principals)}
        )


FULL_ACCESS = ActingReader()


def random_reader(rng: random.Random) -> ActingReader:
    """Everything, nobody in particular, or on behalf of some principals."""
    kind = rng.random()
    if kind < 0.4:
        return FULL_ACCESS
    if kind < 0.55:
        return ActingReader(frozenset(), said=False)
    return ActingReader(frozenset(rng.sample(PRINCIPALS, rng.choice([1, 1, 2, 3]))))
