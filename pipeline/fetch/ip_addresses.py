"""Which addresses of the Internet Protocol may be connected to.

Source: IANA IPv4 and IPv6 Special-Purpose Address Registries; RFC 6052 (NAT64); the addresses at
which clouds tell a machine its credentials.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Literal, TypeAlias

AddressClass = Literal["public", "inner", "near", "none"]
"""`public`: anybody's.

`inner`: loopback and private networks. `near`: link-local, and where clouds tell credentials.
`none`: no server's.
"""

Address: TypeAlias = IPv4Address | IPv6Address

_NEAR_4 = [IPv4Network(n) for n in ("169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32")]
_INNER_4 = [
    IPv4Network(n)
    for n in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "198.18.0.0/15",
    )
]
_NONE_4 = [
    IPv4Network(n)
    for n in (
        "0.0.0.0/8",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
_NEAR_6 = [IPv6Network(n) for n in ("fe80::/10", "fd00:ec2::/32")]
_INNER_6 = [IPv6Network(n) for n in ("::1/128", "fc00::/7")]
_GLOBAL_6 = IPv6Network("2000::/3")
# the first has Teredo, the third is 6to4
_NONE_6 = [IPv6Network(n) for n in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")]
_NAT64 = IPv6Network("64:ff9b::/96")


def classify_address(address: str) -> AddressClass:
    """What kind of address this is.

    Args:
        address: IPv4 or IPv6 in their usual forms, perhaps with a zone.

    Raises:
        ValueError: it is none.
    """
    found = ip_address(address.partition("%")[0])
    return _kind_4(found) if isinstance(found, IPv4Address) else _kind_6(found)


def _kind_4(address: IPv4Address) -> AddressClass:
    if any(address in network for network in _NEAR_4):
        return "near"
    if any(address in network for network in _INNER_4):
        return "inner"
    return "none" if any(address in network for network in _NONE_4) else "public"


def _kind_6(address: IPv6Address) -> AddressClass:
    if address.ipv4_mapped is not None:
        return _kind_4(address.ipv4_mapped)
    if address in _NAT64:
        return _kind_4(IPv4Address(int(address) & 0xFFFFFFFF))
    if any(address in network for network in _NEAR_6):
        return "near"
    if any(address in network for network in _INNER_6):
        return "inner"
    return (
        "public"
        if address in _GLOBAL_6 and not any(address in network for network in _NONE_6)
        else "none"
    )
