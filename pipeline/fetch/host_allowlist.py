"""Names of hosts in one form, and those that may be reached though they are not public."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from livedex.pipeline.fetch.ip_addresses import classify_address

_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


def normalize_host(host: str) -> str:
    """A host in the one form that is looked at and connected to.

    Args:
        host: a name, also with letters of other scripts, or an address; one of IPv6 without
            brackets.

    Returns:
        Lower case, ASCII, without a dot at the end; an address in its shortest form.

    Raises:
        ValueError: it is none, or an address in a form that others read as another one (`127.1`,
        `0x7f000001`, `2130706433`, `0177.0.0.1`).
    """
    if ":" in host:
        if "%" in host:
            raise ValueError("an address with a zone leads nowhere from here")
        return _plain_address(host, IPv6Address)
    if not host.isascii():
        import idna  # its tables are large, and hardly any host needs them

        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError as exc:
            raise ValueError("the host is no name") from exc
    host = host.lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _plain_address(host, IPv4Address)
    if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("the host is no name")
    return host


def _plain_address(host: str, kind: type[IPv4Address] | type[IPv6Address]) -> str:
    try:
        return str(kind(host))
    except ValueError:
        raise ValueError(
            "an address is written as four decimal numbers, or as one of IPv6 in brackets"
        ) from None


def is_ip_address(host: str) -> bool:
    """Whether a plain host is an address."""
    return ":" in host or _NUMBER.fullmatch(host.rsplit(".", 1)[-1]) is not None


class HostAllowlist:
    """Hosts that may be reached though they are not public.

    Args:
        named: each as `host` or `host:port`; an address of IPv6 in brackets where a port follows.

    Raises:
        ValueError: one of them is none.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = frozenset(_entry(each) for each in named)

    def __or__(self, other: HostAllowlist) -> HostAllowlist:
        both = HostAllowlist()
        both._named = self._named | other._named
        return both

    def names(self, host: str, port: int) -> bool:
        """Whether a plain host is among them."""
        return (host, port) in self._named or (host, None) in self._named

    def allow(self, address: str, host: str, port: int) -> bool:
        """Whether a host may be connected to at one of its addresses.

        A host that is named may be in an inner network. A link-local address, and one at which a
        cloud tells its credentials, has to be named
        itself: a name must not lead there.
        """
        kind = classify_address(address)
        if kind == "public":
            return True
        if not self.names(host, port):
            return False
        return kind == "inner" or (kind == "near" and is_ip_address(host))


def _entry(named: str) -> tuple[str, int | None]:
    found = re.fullmatch(
        r"\[(?P<six>[^\]]+)\](?::(?P<port>[0-9]+))?|(?P<host>[^:\[\]]+)(?::(?P<port2>"
        r"[0-9]+))?|(?P<bare>[^\[\]]*:[^\[\]]*)",
        named,
    )
    if found is None or "/" in named or "@" in named:
        raise ValueError(f"{named!r} is no HOST or HOST:PORT")
    port = found["port"] or found["port2"]
    if port is not None and not 0 < int(port) < 65536:
        raise ValueError(f"{named!r} has no port from 1 to 65535")
    try:
        return normalize_host(found["six"] or found["host"] or found["bare"]), int(
            port
        ) if port else None
    except ValueError as exc:
        raise ValueError(f"{named!r} is no HOST or HOST:PORT: {exc}") from exc
