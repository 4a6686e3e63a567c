"""Which requests are answered without a credential, where the service asks for none: those that
come from this machine and no other site.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers

from livedex.pipeline.errors import ForbiddenError
from livedex.pipeline.http.allowed_hosts import AllowedHosts

_FORWARDED = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
        "x-original-forwarded-for",
        "x-original-host",
        "x-envoy-external-address",
        "x-appengine-user-ip",
    }
)
_FORWARDED_PREFIX = "x-forwarded"


class AnonymousRequestPolicy:
    """Checks requests that show no credential.

    Args:
        hosts: that they may name.
        origins: of web pages that may ask, such as `https://app.example.org`, beside pages of this
            service.
        may_be_forwarded: whether a proxy may pass them on.
    """

    def __init__(
        self, hosts: AllowedHosts, *, origins: Collection[str] = (), may_be_forwarded: bool = False
    ) -> None:
        self._hosts = hosts
        self._origins = frozenset(origins)
        self._may_be_forwarded = may_be_forwarded

    def check(self, headers: Headers) -> None:
        """Go on only with a request from this machine.

        Raises:
            ForbiddenError: it names another host, was forwarded, or a page of another site sent it.
        """
        if not self._hosts.allow(headers):
            raise ForbiddenError(
                "without a key this service answers to localhost, and to the names of "
                "LIVEDEX_ALLOWED_HOSTS, not to the host name of this request: send a key"
            )
        if not self._may_be_forwarded and any(
            name in _FORWARDED or name.startswith(_FORWARDED_PREFIX)
            for name in map(str.lower, headers)
        ):
            raise ForbiddenError(
                "without a key this service answers requests of this machine, and a proxy "
                "forwarded this one: send a key"
            )
        origins = headers.getlist("origin")
        if any(
            origin not in self._origins and origin.partition("://")[2] != headers.get("host")
            for origin in origins
        ) or (not origins and _is_cross_site_embed(headers)):
            raise ForbiddenError(
                "without a key this service answers its own pages, and those of "
                "LIVEDEX_CORS_ORIGINS, not a page of another site: send a key"
            )


def _is_cross_site_embed(headers: Headers) -> bool:
    """Whether a page of another site loads it as a picture, script, frame or the like: browsers
    name no origin then. A link that somebody follows is none.
    """
    return (
        headers.get("sec-fetch-site", "").strip().lower() in ("cross-site", "same-site")
        and headers.get("sec-fetch-dest") != "document"
    )
