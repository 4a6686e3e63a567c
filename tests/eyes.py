"""On whose behalf somebody reads, in tests: everything, or what some principals may read, and how the API is asked so."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PRINCIPALS = ["user:ann", "group:h,r", 'a "b" {c}', "d\u00e9j\u00e0'--", "null"]
_HIDDEN = re.compile(r"only([0-9]*)q")

Acl = Sequence[str] | None


def some_acl(rng: random.Random) -> list[str] | None:
    """Rights as they are sent; `*` lets everybody in."""
    if rng.random() < 0.4:
        return None
    return rng.sample([*PRINCIPALS, "*"], rng.choice([0, 1, 1, 1, 2, 3]))


def held(acl: Acl) -> tuple[str, ...] | None:
    """Rights as they are kept."""
    return None if acl is None or "*" in acl else tuple(sorted(acl))


def word_of(acl: Acl) -> str:
    """A word that names rights, for texts that stand under them; empty where everybody may read."""
    kept = held(acl)
    return "" if kept is None else f"only{''.join(str(PRINCIPALS.index(name)) for name in kept)}q"


@dataclass(frozen=True, slots=True)
class Eye:
    """Who reads.

    Attributes:
        principals: None: everything is read.
        said: whether the request names them; a key of which nothing is said reads what is for everybody.
    """

    principals: frozenset[str] | None = None
    said: bool = True

    def sees(self, acl: Acl) -> bool:
        """Whether it may read under these rights."""
        kept = held(acl)
        return self.principals is None or kept is None or bool(self.principals & set(kept))

    def told(self, acl: Acl) -> list[str] | None:
        """The rights as they are told it."""
        kept = held(acl)
        return None if kept is None else [name for name in kept if self.principals is None or name in self.principals]

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
        return {} if self.principals is None or not self.said else {"principals": sorted(self.principals)}


EVERYTHING = Eye()


def some_eye(rng: random.Random) -> Eye:
    """Everything, nobody in particular, or on behalf of some principals."""
    kind = rng.random()
    if kind < 0.4:
        return EVERYTHING
    if kind < 0.55:
        return Eye(frozenset(), said=False)
    return Eye(frozenset(rng.sample(PRINCIPALS, rng.choice([1, 1, 2, 3]))))
