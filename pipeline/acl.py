"""Access control lists (ACLs) of documents, and the principals that they name.

A document without an ACL is visible to its whole tenant. With an ACL, it is visible to readers that
have one of its principals, and with an empty ACL to none. Principals are case-sensitive. The stages
and operators read without principals and see every document; see `livedex.pipeline.model.Reader`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

ANYONE = "*"
"""In the ACL of a document: the whole tenant, as if the document had no ACL."""

MAX_PRINCIPALS = 1_000  # in the ACL of a document, and of a reader
MAX_PRINCIPAL_LENGTH = 256


def is_principal(name: object) -> bool:
    """Return whether a value is a valid principal: 1 to 256 printable characters, without
    surrounding white space.

    Args:
        name: any value.
    """
    return (
        isinstance(name, str)
        and 1 <= len(name) <= MAX_PRINCIPAL_LENGTH
        and name.isprintable()
        and name == name.strip()
    )


def _principal(name: str) -> str:
    if not is_principal(name):
        raise PydanticCustomError(
            "principal",
            f"a principal must have 1 to {MAX_PRINCIPAL_LENGTH} printable characters, without "
            "surrounding white space",
        )
    return name


def _not_wildcard(name: str) -> str:
    if name == ANYONE:
        raise PydanticCustomError(
            "principal", "* is no principal of a reader: it is allowed only in a document's acl"
        )
    return name


def _as_tuple(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("principals", "principals must be a list of strings")
    return tuple(value)


def _sorted_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def normalize_acl(acl: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the ACL, or None if it contains `*`.

    Args:
        acl: principals; None: the whole tenant.
    """
    return None if acl is None or ANYONE in acl else acl


Principal = Annotated[
    str, Field(min_length=1, max_length=MAX_PRINCIPAL_LENGTH), AfterValidator(_principal)
]
_Listed = Field(max_length=MAX_PRINCIPALS, fail_fast=True)

Acl = Annotated[
    tuple[Principal, ...], _Listed, BeforeValidator(_as_tuple), AfterValidator(_sorted_unique)
]
"""The principals that may read a document, sorted and without duplicates: equal ACLs compare equal.
"""

Principals = Annotated[
    tuple[Annotated[Principal, AfterValidator(_not_wildcard)], ...],
    _Listed,
    BeforeValidator(_as_tuple),
    AfterValidator(_sorted_unique),
]
"""The principals of a reader, sorted and without duplicates."""
