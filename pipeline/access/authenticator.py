"""Who asks, by API key or token.

The credential alone decides; what else stands in a request says nothing about whose data it is.
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
UNKNOWN_KEY = "this key is not known: it is mistyped, expired or revoked"


class CredentialAuthenticator:
    """`livedex.pipeline.http.authentication.Authenticator` by API keys and tokens.

    Args:
        ring: checks keys.
        tokens: checks tokens; None: none is honoured.
        without_key: whose data a request without a credential is about, as long as no key was ever
            made; None: it is refused.
        keyless: decides which of these requests are answered; None: all.
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
        """See the protocol."""
        credential = extract_credential(headers)
        if credential is None:
            if self._nobody is None or await self._ring.was_any_made():
                raise TenantRequiredError(
                    "this service asks for a key (`livedex keys create` makes one): send it "
                    "as Authorization: Bearer KEY or X-API-Key: KEY"
                )
            if self._keyless is not None:
                self._keyless.check(headers)
            return self._nobody
        if self._tokens is not None and looks_like_jwt(credential):
            caller = await self._tokens.caller_of(credential)
            if caller is None:
                raise unauthorized(UNKNOWN_TOKEN)
            return caller
        holder = await self._ring.verify(credential)
        if holder is None:
            raise unauthorized()
        return Caller(
            holder.key.tenant_id, known_scopes(holder.key.scopes), credential=holder.key_id
        )

    def was_open_to(self, headers: Headers) -> bool:
        """See the protocol."""
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


def unauthorized(detail: str = UNKNOWN_KEY) -> HTTPException:
    """401 for a credential that opens nothing."""
    return HTTPException(401, detail, CHALLENGE)


def known_scopes(names: tuple[str, ...]) -> frozenset[Scope]:
    """Those of the names that are scopes."""
    return frozenset(name for name in names if name in SCOPES)


def extract_credential(headers: Headers) -> str | None:
    """The one credential of a request; None where there is none.

    Raises:
        HTTPException: 401, there are several, or one of a kind that is not known here.
    """
    given = {value.strip() for value in headers.getlist("x-api-key") if value.strip()}
    for value in headers.getlist("authorization"):
        if not value.strip():
            continue
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() != "bearer" or not rest.strip():
            raise unauthorized("this is no credential for here: send Authorization: Bearer KEY")
        given.add(rest.strip())
    if len(given) > 1:
        raise unauthorized("two different credentials were sent: send one")
    return given.pop() if given else None
