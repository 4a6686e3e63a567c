"""Authentication by JWT (RFC 7519), signed with a published key of the issuer."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import jwt

from livedex.pipeline.access.jwks import ALGORITHMS, JwksCache
from livedex.pipeline.acl import is_principal
from livedex.pipeline.errors import TenantRequiredError
from livedex.pipeline.http.authentication import SCOPES, Caller
from livedex.pipeline.model import TenantId
from livedex.pipeline.names import is_reserved
from livedex.pipeline.settings.jwt import JwtSettings

LEEWAY_S = 30.0
UNKNOWN_TOKEN = (
    "the token is invalid: it is expired or not valid yet, is for another service, or is not "
    "signed by the issuer"
)
_MOST_CHARACTERS = 16_384
_KNOWN = frozenset[str]().union(*ALGORITHMS.values())


def looks_like_jwt(credential: str) -> bool:
    """Return whether a credential has the three parts of a signed token; API keys do not."""
    return credential.count(".") == 2


class JwtVerifier:
    """Verifies tokens with the keys of their issuer.

    Args:
        keys: of the issuer.
        settings: issuer, audience and names of claims.
    """

    def __init__(self, keys: JwksCache, settings: JwtSettings) -> None:
        self._keys = keys
        self._settings = settings

    async def caller_of(self, token: str) -> Caller | None:
        """Return the caller of a token; None: the token is invalid.

        Args:
            token: from a request.

        Raises:
            TenantRequiredError: the token is valid, but names no tenant.
            OutageError: the keys of the issuer cannot be fetched.
        """
        claims = await self._claims(token)
        if claims is None:
            return None
        tenant_id = _tenant(get_claim(claims, self._settings.tenant_claim))
        named = self._settings.principals_claim
        principals = (
            frozenset(filter(is_principal, _names(get_claim(claims, named))))
            if named is not None
            else frozenset[str]()
        )
        scopes = frozenset(
            name
            for name in _names(get_claim(claims, self._settings.scopes_claim), words=True)
            if name in SCOPES
        )
        return Caller(
            tenant_id, scopes, credential=_credential(tenant_id, claims), principals=principals
        )

    async def _claims(self, token: str) -> Mapping[str, Any] | None:
        """Return the claims of a token; None: the token is invalid."""
        if len(token) > _MOST_CHARACTERS or not token.isascii():
            return None
        try:
            header = jwt.get_unverified_header(token)
            algorithm, kid = header.get("alg"), header.get("kid")
            if algorithm not in _KNOWN or not isinstance(kid, str | None) or "crit" in header:
                return None
            key = await self._keys.key(kid, str(algorithm))
            if key is None:
                return None
            return jwt.decode(
                token,
                key,
                algorithms=[str(algorithm)],
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                leeway=LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (
            jwt.PyJWTError,
            ValueError,
            TypeError,
            OverflowError,
        ):  # untrusted input can fail in any part of the parser
            return None


def get_claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its (dotted) name, or None if it is absent."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def _tenant(value: Any) -> TenantId:
    if (
        isinstance(value, str)
        and 1 <= len(value) <= 200
        and value.isprintable()
        and value == value.strip()
        and not is_reserved(value)
    ):
        return TenantId(value)
    raise TenantRequiredError(
        "the token names no tenant: it needs the claim in LIVEDEX_JWT_TENANT_CLAIM"
    )


def _names(value: Any, *, words: bool = False) -> Sequence[str]:
    """Return the names in a claim, which is a list or one name; with `words`, a string may contain
    several names separated by spaces.
    """
    if isinstance(value, str):
        return value.split() if words else [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _credential(tenant_id: TenantId, claims: Mapping[str, Any]) -> str:
    """Return an id of the token's subject for logs and limits that does not reveal the subject."""
    subject = str(claims.get("sub") or claims.get("client_id") or claims.get("azp") or "")
    return (
        "jwt-"
        + hashlib.sha256(
            f"{claims['iss']}\x00{tenant_id}\x00{subject}".encode("utf-8", "surrogatepass")
        ).hexdigest()[:24]
    )
