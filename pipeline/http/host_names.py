"""Parsing of the settings `LIVEDEX_ALLOWED_HOSTS` and `LIVEDEX_CORS_ORIGINS`."""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator

ANY_HOST = "*"
_NAME = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)


def parse_host_names(listed: str) -> tuple[str, ...]:
    """Return the host names in a comma-separated setting.

    Args:
        listed: the setting.

    Raises:
        ValueError: an entry is neither a host name nor an address.
    """
    names = tuple(name.strip() for name in listed.split(",") if name.strip())
    for name in names:
        if (
            name != ANY_HOST
            and not _NAME.fullmatch(normalize_host(name))
            and not _is_address(normalize_host(name))
        ):
            raise ValueError(
                f"{name!r} is not a host name: use names or addresses without scheme and port, "
                "such as search.example.org"
            )
    return names


def parse_origins(listed: str) -> tuple[str, ...]:
    """Return the origins in a comma-separated setting, as browsers send them.

    Args:
        listed: the setting.

    Raises:
        ValueError: an entry is not an origin.
    """
    origins = tuple(each.strip() for each in listed.split(",") if each.strip())
    for origin in origins:
        try:
            parts = urlsplit(origin)
            exact = (
                f"{parts.scheme}://{parts.netloc}" == origin
                and parts.hostname
                and (parts.port is None or parts.port > 0)
            )
        except ValueError:
            exact = False
        if (
            not exact
            or parts.scheme not in ("http", "https")
            or "@" in origin
            or "*" in origin
            or origin != origin.lower()
        ):
            raise ValueError(
                f"{origin!r} is not an origin: use scheme, host and port as browsers send them, "
                "such as https://app.example.org"
            )
        if (parts.scheme, parts.port) in (("http", 80), ("https", 443)):
            raise ValueError(
                f"{origin!r} contains the default port of its scheme, which browsers do not send: "
                "remove the port"
            )
    return origins


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is loopback."""
    try:
        return (
            host == "localhost"
            or host.endswith(".localhost")
            or ipaddress.ip_address(host).is_loopback
        )
    except ValueError:
        return False


def normalize_host(name: str) -> str:
    """Return a host name or address in canonical form for comparison."""
    return name.strip().lower().removeprefix("[").removesuffix("]").removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _as_text(value: Any) -> Any:
    return (
        ",".join(value)
        if isinstance(value, list) and all(isinstance(each, str) for each in value)
        else value
    )


def _hosts(value: str) -> str:
    parse_host_names(value)
    return value


def _origins(value: str) -> str:
    parse_origins(value)
    return value


HostNames = Annotated[str, BeforeValidator(_as_text), AfterValidator(_hosts)]
Origins = Annotated[str, BeforeValidator(_as_text), AfterValidator(_origins)]
