"""Tenant names that Livedex reserves for itself."""

from __future__ import annotations

from livedex.pipeline.model import TenantId

UNKNOWN_TENANT = TenantId("_unknown")
"""Holds the dead letters of records that name no tenant."""

RESERVED = frozenset({UNKNOWN_TENANT})


def is_reserved(name: str) -> bool:
    """Return whether a tenant name is reserved: callers can neither write to it nor delete it.

    Args:
        name: of a tenant.
    """
    return name in RESERVED


def require_unreserved(name: str) -> str:
    """Return the name unchanged.

    Args:
        name: of a tenant.

    Raises:
        ValueError: the name is reserved.
    """
    if is_reserved(name):
        raise ValueError(
            f"the tenant name {name} is reserved for records that name no tenant: choose another "
            "one"
        )
    return name
