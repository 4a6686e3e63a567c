"""Policy for requests without a credential, if the service needs none: only requests from this
machine, and not from pages of other sites, are answered.
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
    """Checks requests without a credential.

    Args:
        hosts: allowed host names.
        origins: allowed origins of web pages, such as `https://app.example.org`, besides pages of
            this service.
        may_be_forwarded: whether a proxy may forward them.
    """

    def __init__(
        self, hosts: AllowedHosts, *, origins: Collection[str] = (), may_be_forwarded: bool = False
    ) -> None:
        self._hosts = hosts
        self._origins = frozenset(origins)
        self._may_be_forwarded = may_be_forwarded

    def check(self, headers: Headers) -> None:
        """Check that a request comes from this machine.

        Args:
            headers: of the request.

        Raises:
            ForbiddenError: its host is not allowed, a proxy forwarded it, or a page of another site
                sent it.
        """
        if not self._hosts.allow(headers):
            raise ForbiddenError(
                "requests without an API key must use the host localhost, or a name in "
                "LIVEDEX_ALLOWED_HOSTS: send a key"
            )
        if not self._may_be_forwarded and any(
            name in _FORWARDED or name.startswith(_FORWARDED_PREFIX)
            for name in map(str.lower, headers)
        ):
            raise ForbiddenError(
                "requests without an API key must come from this machine, and a proxy forwarded "
                "this one: send a key"
            )
        origins = headers.getlist("origin")
        if any(
            origin not in self._origins and origin.partition("://")[2] != headers.get("host")
            for origin in origins
        ) or (not origins and _is_cross_site_embed(headers)):
            raise ForbiddenError(
                "requests without an API key must come from pages of this service or of "
                "LIVEDEX_CORS_ORIGINS, not a page of another site: send a key"
            )


def _is_cross_site_embed(headers: Headers) -> bool:
    """Return whether a page of another site embeds the response as an image, script or frame;
    browsers send no Origin then. Following a link is not an embed.
    """
    return (
        headers.get("sec-fetch-site", "").strip().lower() in ("cross-site", "same-site")
        and headers.get("sec-fetch-dest") != "document"
    )
