"""Who asks, by a token of an issuer (RFC 7519), signed with a key that it publishes."""

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
    "this token is not honoured here: it is expired or not valid yet, for another service, or "
    "not signed by the issuer"
)
_MOST_CHARACTERS = 16_384
_KNOWN = frozenset[str]().union(*ALGORITHMS.values())


def looks_like_jwt(credential: str) -> bool:
    """Whether a credential has the three parts of a signed token; no API key has."""
    return credential.count(".") == 2


class JwtVerifier:
    """Checks tokens by the keys of their issuer."""

    def __init__(self, keys: JwksCache, settings: JwtSettings) -> None:
        self._keys = keys
        self._settings = settings

    async def caller_of(self, token: str) -> Caller | None:
        """Who shows a token; None where it is not honoured, whatever the reason.

        Raises:
            TenantRequiredError: it is honoured, and names no tenant.
            OutageError: the keys of the issuer cannot be had.
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
        """What a token says, if it is good."""
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
        ):  # what a stranger sends may break any part of it
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
        "this token names no tenant: it needs the claim that LIVEDEX_JWT_TENANT_CLAIM says"
    )


def _names(value: Any, *, words: bool = False) -> Sequence[str]:
    """The names in a claim: a list of them, or one; with `words` one string may hold several."""
    if isinstance(value, str):
        return value.split() if words else [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _credential(tenant_id: TenantId, claims: Mapping[str, Any]) -> str:
    """Names who a token is for, in logs and limits, without saying it."""
    subject = str(claims.get("sub") or claims.get("client_id") or claims.get("azp") or "")
    return (
        "jwt-"
        + hashlib.sha256(
            f"{claims['iss']}\x00{tenant_id}\x00{subject}".encode("utf-8", "surrogatepass")
        ).hexdigest()[:24]
    )
