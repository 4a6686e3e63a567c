"""How an API key looks:

`ldx_<id>_<secret>`. The id is no secret and names the key in lists and logs; the secret is 256
random bits.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field

PREFIX = "ldx"
_ID_BYTES = 6
_SECRET_BYTES = 32
_KEY = re.compile(
    rf"{PREFIX}_([0-9a-f]{{{2 * _ID_BYTES}}})_[0-9a-f]{{{2 * _SECRET_BYTES}}}", re.ASCII
)


@dataclass(frozen=True, slots=True)
class GeneratedKey:
    """A key that was just made: the only moment at which it is known.

    Attributes:
        key: to be shown once; never in a representation of this.
        sha256: what is kept of it.
    """

    key_id: str
    key: str = field(repr=False)
    sha256: bytes = field(repr=False)


def generate_key() -> GeneratedKey:
    """A new key."""
    key_id = secrets.token_hex(_ID_BYTES)
    key = f"{PREFIX}_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
    return GeneratedKey(key_id, key, key_digest(key))


def parse_key_id(key: str) -> str | None:
    """The id in a key; None for what does not look like one."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def key_digest(key: str) -> bytes:
    """What is kept of a key.

    It is random and long, so one round of SHA-256 is enough: there is nothing to guess.
    """
    return hashlib.sha256(key.encode()).digest()
