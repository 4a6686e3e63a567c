"""Who asks, by API key. The credential alone decides; what else stands in a request says nothing about whose data it is."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from pipeline.access.ring import KeyRing
from pipeline.api.tenancy import SCOPES, Caller, Scope
from pipeline.errors import ForbiddenError, TenantRequiredError
from pipeline.model import TenantId

CHALLENGE = {"WWW-Authenticate": 'Bearer realm="livedex"'}
UNKNOWN = "this key is not known: it is mistyped, expired or revoked"


class KeyTenancy:
    """`pipeline.api.tenancy.Tenancy` by API keys.

    Args:
        ring: checks keys.
        without_key: whose data a request without a credential is about; None: it is refused.
        here_only: without a credential only requests to a name of this machine are let in. A page of another site may point a name of its own at a
            loopback address, and a browser then takes us for a part of that site.
    """

    def __init__(self, ring: KeyRing, without_key: TenantId | None = None, *, here_only: bool = False) -> None:
        self._ring = ring
        self._here_only = here_only
        self._nobody = None if without_key is None else Caller(without_key)

    async def caller_of(self, headers: Headers) -> Caller:
        """See the protocol."""
        credential = credential_in(headers)
        if credential is None:
            if self._nobody is None:
                raise TenantRequiredError("this service has several tenants: send a key, as Authorization: Bearer KEY or X-API-Key: KEY")
            if self._here_only and not is_loopback(host_in(headers)):
                raise ForbiddenError(
                    "without a key this service answers to localhost alone, not to the host name of this request: send a key"
                )
            return self._nobody
        holder = await self._ring.holder_of(credential)
        if holder is None:
            raise refused()
        return Caller(holder.key.tenant_id, scopes_of(holder.key.scopes), credential=holder.key_id)


def refused(detail: str = UNKNOWN) -> HTTPException:
    """401 for a credential that opens nothing."""
    return HTTPException(401, detail, CHALLENGE)


def scopes_of(names: tuple[str, ...]) -> frozenset[Scope]:
    """Those of the names that are scopes."""
    return frozenset(name for name in names if name in SCOPES)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return host == "localhost" or host.endswith(".localhost") or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_in(headers: Headers) -> str:
    """The host that a request names, without its port; this machine where it names none, as no browser does."""
    host = headers.get("host", "localhost").strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


def credential_in(headers: Headers) -> str | None:
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
            raise refused("this is no credential for here: send Authorization: Bearer KEY")
        given.add(rest.strip())
    if len(given) > 1:
        raise refused("two different credentials were sent: send one")
    return given.pop() if given else None
