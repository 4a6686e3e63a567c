"""URLs taken apart once: what is looked at is what is connected to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from livedex.pipeline.fetch.host_allowlist import normalize_host

MAX_URL_CHARACTERS = 8000
_PORTS = {"http": 80, "https": 443}
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_KEPT = "/?%:@!$&'()*+,;=~[]|"

Origin: TypeAlias = tuple[str, str, int]
"""Scheme, host and port."""


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """Where something stands.

    Attributes:
        scheme: `http` or `https`.
        host: as `plain_host` gives it.
        target: path and query, ASCII, as they go into the request.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> Origin:
        """Whom credentials are for."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The host, and the port where it is not the usual one; for the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """All of it."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def path(self) -> str:
        """Without the query."""
        return self.target.partition("?")[0]


def parse_url(url: str) -> ParsedUrl:
    """Take a URL apart.

    Raises:
        ValueError: it is none of http or https, names a user, or its host has no plain form; the
        message repeats nothing of it.
    """
    if len(url) > MAX_URL_CHARACTERS:
        raise ValueError(f"a URL has at most {MAX_URL_CHARACTERS} characters")
    if _FORBIDDEN.search(url):
        raise ValueError("a URL has no spaces, control characters or backslashes")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS:
        raise ValueError("only http:// and https:// are fetched")
    if "@" in parts.netloc:
        raise ValueError("a URL with a user or a password in it is not fetched")
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port is none") from None
    if (
        not parts.hostname
        or port == 0
        or (parts.netloc.startswith("[") and ":" not in parts.hostname)
    ):
        raise ValueError("the URL names no host, or port 0")
    target = quote((parts.path or "/").encode("utf-8", "surrogatepass"), safe=_KEPT)
    if parts.query:
        target += "?" + quote(parts.query.encode("utf-8", "surrogatepass"), safe=_KEPT)
    return ParsedUrl(
        parts.scheme,
        normalize_host(parts.hostname),
        _PORTS[parts.scheme] if port is None else port,
        target,
    )


def resolve_redirect(place: ParsedUrl, location: str) -> ParsedUrl:
    """Where a redirect leads.

    Raises:
        ValueError: nowhere that may be gone to; or from https to http.
    """
    found = parse_url(urljoin(place.url, location))
    if place.scheme == "https" and found.scheme == "http":
        raise ValueError("a redirect from https to http is not followed")
    return found
