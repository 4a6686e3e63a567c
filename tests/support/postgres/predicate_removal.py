"""A switch for tests: every statement without what it says of the tenant and of rights, so that
the database alone sees to both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from livedex.pipeline.store.postgres import statements

_VALUE = re.compile(r"\b(?:\w+\.)?tenant_id = \$(\d+)\b")
_SETTING = re.compile(r"\b(?:\w+\.)?tenant_id = current_setting\(''livedex\.tenant''\)")
_JOIN = re.compile(r"\b\w+\.tenant_id = \w+\.tenant_id\b")
_RIGHTS = re.compile(r"\breadable\((?:\w+\.)?acl, (?:\w+\.)?next_acl, \$(\d+)\)")


def strip_tenant_predicates(text: str) -> str:
    """A statement whose conditions on the tenant and on rights are always true; its parameters
    stay.
    """
    text = _RIGHTS.sub(r"($\1::text[] is null or true)", text)
    return _SETTING.sub("true", _JOIN.sub("true", _VALUE.sub(r"($\1::text is not null)", text)))


@contextmanager
def without_tenant_predicates() -> Iterator[list[str]]:
    """Every statement without them, while the block lasts.

    Yields:
        The names of those that are changed by it.
    """
    kept = statements.all_statements
    found = {name: strip_tenant_predicates(text) for name, text in kept().items()}
    # it is found by its name at each call
    statements.all_statements = lambda: found  # type: ignore[assignment]
    statements.sql.cache_clear()
    try:
        yield sorted(name for name, text in kept().items() if found[name] != text)
    finally:
        statements.all_statements = kept
        statements.sql.cache_clear()
