"""Names of tenants that are taken by Livedex itself."""

from __future__ import annotations

from livedex.pipeline.model import TenantId

UNKNOWN_TENANT = TenantId("_unknown")
"""Holds the dead letters of records that do not say whose they are."""

RESERVED = frozenset({UNKNOWN_TENANT})


def is_reserved(name: str) -> bool:
    """Whether nobody's data may be under this name, and nothing under it is deleted as a tenant."""
    return name in RESERVED


def require_unreserved(name: str) -> str:
    """The name.

    Raises:
        ValueError: it is reserved.
    """
    if is_reserved(name):
        raise ValueError(
            f"the name {name} is reserved for records that do not say whose they are: choose "
            "another one"
        )
    return name
