"""The two database roles of an installation.

Roles belong to the whole server, so installations on the same server need different roles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_PREFIX = "livedex"
_NAMES = re.compile(r"\blivedex_(app|definer)\b")


@dataclass(frozen=True, slots=True)
class DatabaseRoles:
    """The names of an installation's roles.

    Attributes:
        prefix: lower-case letters, digits and underscores, at most 50 characters.
    """

    prefix: str = DEFAULT_PREFIX

    @property
    def application(self) -> str:
        """Return the role of all processes; it owns nothing."""
        return f"{self.prefix}_app"

    @property
    def definer(self) -> str:
        """Return the role that owns the functions that bypass row policies; it cannot log in."""
        return f"{self.prefix}_definer"

    def render(self, sql: str) -> str:
        """Return the text of a migration for these roles; the files contain the default roles."""
        return _NAMES.sub(lambda found: f"{self.prefix}_{found[1]}", sql)


DEFAULT_ROLES = DatabaseRoles()
