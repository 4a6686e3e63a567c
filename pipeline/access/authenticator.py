"""Authentication by API key or JWT.

Only the credential determines the tenant, never other parts of a request.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from livedex.pipeline.access.anonymous_requests import AnonymousRequestPolicy
from livedex.pipeline.access.api_key_cache import ApiKeyCache
from livedex.pipeline.access.jwt_verifier import UNKNOWN_TOKEN as UNKNOWN_TOKEN
from livedex.pipeline.access.jwt_verifier import JwtVerifier, looks_like_jwt
from livedex.pipeline.errors import ForbiddenError, TenantRequiredError
from livedex.pipeline.http.authentication import SCOPES, Caller, Scope
from livedex.pipeline.model import TenantId

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="livedex"'}
UNKNOWN_KEY = "the API key is invalid: it is mistyped, expired or revoked"


class CredentialAuthenticator:
    """Implements `livedex.pipeline.http.authentication.Authenticator` with API keys and JWTs.

    Args:
        ring: verifies API keys.
        without_key: tenant of requests without a credential, while no key was ever created; None:
            they are rejected.
        keyless: policy for requests without a credential; None: all are answered.
        tokens: verifies JWTs; None: none are accepted.
    """

    def __init__(
        self,
        ring: ApiKeyCache,
        without_key: TenantId | None = None,
        *,
        keyless: AnonymousRequestPolicy | None = None,
        tokens: JwtVerifier | None = None,
    ) -> None:
        self._ring = ring
        self._keyless = keyless
        self._tokens = tokens
        self._nobody = None if without_key is None else Caller(without_key)

    async def caller_of(self, headers: Headers) -> Caller:
        """Return the caller of a request.

        Args:
            headers: of the request.

        Raises:
            UnauthorizedError: the credential is invalid.
            TenantRequiredError: there is no credential, and one is needed.
        """
        credential = extract_credential(headers)
        if credential is None:
            if self._nobody is None or await self._ring.was_any_made():
                raise TenantRequiredError(
                    "this service needs an API key (`livedex keys create` creates one): send it as "
                    "Authorization: Bearer KEY or X-API-Key: KEY"
                )
            if self._keyless is not None:
                self._keyless.check(headers)
            return self._nobody
        if self._tokens is not None and looks_like_jwt(credential):
            caller = await self._tokens.caller_of(credential)
            if caller is None:
                raise UnauthorizedError(UNKNOWN_TOKEN)
            return caller
        holder = await self._ring.verify(credential)
        if holder is None:
            raise UnauthorizedError
        return Caller(
            holder.key.tenant_id, known_scopes(holder.key.scopes), credential=holder.key_id
        )

    def was_open_to(self, headers: Headers) -> bool:
        """Return whether a request without a credential was last accepted."""
        if self._nobody is None or not self._ring.known_empty:
            return False
        try:
            if extract_credential(headers) is not None:
                return False
            if self._keyless is not None:
                self._keyless.check(headers)
        except (HTTPException, ForbiddenError):
            return False
        return True


class UnauthorizedError(HTTPException):
    """An invalid credential (HTTP 401)."""

    def __init__(self, detail: str = UNKNOWN_KEY) -> None:
        super().__init__(401, detail, CHALLENGE)


def known_scopes(names: tuple[str, ...]) -> frozenset[Scope]:
    """Return the names that are scopes."""
    return frozenset(name for name in names if name in SCOPES)


def extract_credential(headers: Headers) -> str | None:
    """Return the credential of a request; None: there is none.

    Args:
        headers: of the request.

    Raises:
        UnauthorizedError: there are several credentials, or the scheme is not supported.
    """
    given = {value.strip() for value in headers.getlist("x-api-key") if value.strip()}
    for value in headers.getlist("authorization"):
        if not value.strip():
            continue
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() != "bearer" or not rest.strip():
            raise UnauthorizedError("unsupported credential: send Authorization: Bearer KEY")
        given.add(rest.strip())
    if len(given) > 1:
        raise UnauthorizedError("the request has two different credentials: send one")
    return given.pop() if given else None
