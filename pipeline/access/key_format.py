"""Format of API keys: `ldx_<id>_<secret>`.

The id is not secret: lists and logs show it. The secret has 256 random bits.
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
    """A new key. Only this object contains the secret.

    Attributes:
        key_id: the part of the key that is not secret.
        key: to be shown once; excluded from `repr`.
        sha256: of the key, which is stored.
    """

    key_id: str
    key: str = field(repr=False)
    sha256: bytes = field(repr=False)


def generate_key() -> GeneratedKey:
    """Return a new key."""
    key_id = secrets.token_hex(_ID_BYTES)
    key = f"{PREFIX}_{key_id}_{secrets.token_hex(_SECRET_BYTES)}"
    return GeneratedKey(key_id, key, key_digest(key))


def parse_key_id(key: str) -> str | None:
    """Return the id in a key; None: the text is not an API key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def key_digest(key: str) -> bytes:
    """Return the hash of a key for storage.

    One round of SHA-256 suffices: the key has 256 random bits, which cannot be guessed.
    """
    return hashlib.sha256(key.encode()).digest()
