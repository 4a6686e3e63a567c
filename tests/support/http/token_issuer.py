"""An issuer of tokens: its keys, the set that it publishes, and the tokens that it signs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

ISSUER, AUDIENCE = "https://issuer.example/", "livedex"
_MADE: dict[str, Any] = {}


def private_key(kind: str, name: str = "one") -> Any:
    """A private key; made once a run, since RSA keys take a while."""
    makers: dict[str, Any] = {
        "RSA": lambda: rsa.generate_private_key(65537, 2048),
        "short": lambda: rsa.generate_private_key(65537, 1024),
        "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
        "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
        "Ed25519": ed25519.Ed25519PrivateKey.generate,
    }
    if kind + name not in _MADE:
        _MADE[kind + name] = makers[kind]()
    return _MADE[kind + name]


def public_jwk(kind: str, kid: str | None, name: str = "one", **more: Any) -> dict[str, Any]:
    """A key as it is published."""
    algorithm = {
        "RSA": "RS256",
        "short": "RS256",
        "P-256": "ES256",
        "P-384": "ES384",
        "Ed25519": "EdDSA",
    }[kind]
    made = jwt.algorithms.get_default_algorithms()[algorithm].to_jwk(
        private_key(kind, name).public_key(), as_dict=True
    )
    return {**made, **({"kid": kid} if kid is not None else {}), **more}


@dataclass
class Issuer:
    """Publishes keys and counts who fetches them; `error` is raised instead where it is set."""

    keys: list[dict[str, Any]] = field(default_factory=lambda: [public_jwk("RSA", "a")])
    fetched: int = 0
    error: Exception | None = None

    async def __call__(self) -> bytes:
        self.fetched += 1
        if self.error is not None:
            raise self.error
        return orjson.dumps({"keys": self.keys})


def signed_token(
    kind: str = "RSA",
    kid: str | None = "a",
    *,
    name: str = "one",
    algorithm: str = "RS256",
    header: Any = None,
    **claims: Any,
) -> str:
    """A signed token; claims of None are left out."""
    now = int(time.time())
    said = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "exp": now + 60,
        "iat": now,
        "sub": "someone",
        "tenant": "acme",
        "scope": "search",
    } | claims
    headers = {**({"kid": kid} if kid is not None else {}), **(header or {})}
    return jwt.encode(
        {k: v for k, v in said.items() if v is not None},
        private_key(kind, name),
        algorithm=algorithm,
        headers=headers,
    )
