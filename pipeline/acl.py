"""Who may read a document: principals on the document, compared to the letter with those on whose
behalf somebody reads.

A document without a list is for everybody of its tenant. One with a list is for whoever has one of
its principals, and with an empty list for nobody. What reads on nobody's behalf, such as the stages
and an operator, sees everything; see `livedex.pipeline.model.Reader`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

ANYONE = "*"
"""In a list on a document: everybody of the tenant, as if there were no list."""

MAX_PRINCIPALS = 1_000  # of a document, and of a reader
MAX_PRINCIPAL_LENGTH = 256


def is_principal(name: object) -> bool:
    """Whether somebody can be called so: neither empty nor too long, no space around it, and
    nothing in it that is not printed.
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
            f"a principal has 1 to {MAX_PRINCIPAL_LENGTH} printable characters, without "
            "white space around them",
        )
    return name


def _not_wildcard(name: str) -> str:
    if name == ANYONE:
        raise PydanticCustomError(
            "principal", "nobody is called *: that stands for everybody, in the list of a document"
        )
    return name


def _as_tuple(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise PydanticCustomError("principals", "principals are a list of names")
    return tuple(value)


def _sorted_unique(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names)))


def normalize_acl(acl: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The list, None where it lets everybody in."""
    return None if acl is None or ANYONE in acl else acl


Principal = Annotated[
    str, Field(min_length=1, max_length=MAX_PRINCIPAL_LENGTH), AfterValidator(_principal)
]
_Listed = Field(max_length=MAX_PRINCIPALS, fail_fast=True)

Acl = Annotated[
    tuple[Principal, ...], _Listed, BeforeValidator(_as_tuple), AfterValidator(_sorted_unique)
]
"""The principals that may read a document, each once and in order, so that the same rights are
always the same list.
"""

Principals = Annotated[
    tuple[Annotated[Principal, AfterValidator(_not_wildcard)], ...],
    _Listed,
    BeforeValidator(_as_tuple),
    AfterValidator(_sorted_unique),
]
"""On whose behalf somebody reads."""
