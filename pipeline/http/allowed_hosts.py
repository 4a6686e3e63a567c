"""Allowed host names of requests, which protect against DNS rebinding: a page of another site can
point its own name at this service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from starlette.datastructures import Headers

from livedex.pipeline.http.host_names import ANY_HOST, is_loopback, normalize_host

_PORT = re.compile(r":\d*$", re.ASCII)
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})


class AllowedHosts:
    """Checks the host of a request.

    Args:
        names: allowed names and addresses besides localhost, without a port; `*.example.org`
            allows all names below it, `*` all names.
        bound: address or name that the server listens on; a wildcard address adds nothing.

    Attributes:
        is_set: whether names were given; then requests with a credential are checked, too.
    """

    def __init__(self, names: Iterable[str] = (), *, bound: str = "") -> None:
        given = {normalize_host(name) for name in names}
        self.is_set = bool(given)
        self._every = ANY_HOST in given
        self._below = tuple(name[1:] for name in given if name.startswith("*."))
        self._names = given | ({normalize_host(bound)} if bound not in _ANY_ADDRESS else set())

    def allow(self, headers: Headers) -> bool:
        """Return whether the host in the headers is allowed.

        A request without a host is allowed: browsers always send one.
        """
        named = headers.getlist("host")
        if not named:
            return True
        return len(named) == 1 and self.allows_host(parse_host_header(named[0]))

    def allows_host(self, host: str) -> bool:
        """Return whether a host without a port is allowed."""
        if self._every or is_loopback(host) or host in self._names:
            return True
        return bool(host) and host.endswith(self._below) if self._below else False


def parse_host_header(value: str) -> str:
    """Return the host in a Host header, in lower case and without its port; empty: no host."""
    value = value.strip().lower()
    if value.startswith("["):
        address, bracket, port = value[1:].partition("]")
        return address if bracket and (not port or _PORT.fullmatch(port)) else ""
    return _PORT.sub("", value).removesuffix(".")
