"""Distinguishes database outages from errors of a statement or its values.

Store, queue, background loops and listeners all use it. An outage does not count as an attempt of a
document: the stages wait, report it in the health, and resume automatically. Source of the codes:
PostgreSQL's manual, appendix "PostgreSQL Error Codes".
"""

from __future__ import annotations

import errno

import asyncpg

_SQLSTATES = {
    "25006": "it is read-only (a standby, or a failover that is not over)",
    "25P03": "it ended a transaction that stood still",
    "25P04": "it ended a transaction that took too long",
    "28000": "it refuses the login",
    "28P01": "it refuses the password",
    "3D000": "the database is not there",
    "42501": "the role may not do this: run `livedex migrate`, or check the grants",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "53300": "it takes no more connections",
    "53400": "a limit of its configuration is reached",
    "57P01": "it is shutting down, or an administrator ended the session",
    "57P02": "it crashed and is recovering",
    "57P03": "it is starting or shutting down",
    "57P04": "the database was dropped",
    "57P05": "it ended an idle session",
    "58030": "it cannot read or write its disk",
    "XX000": "a connection pooler or the server failed",
}
_SQLSTATE_CLASSES = {
    "08": "the connection failed",
    "53": "it lacks resources",
    "57": "an operator intervened",
    "58": "its system failed",
    "XX": "it failed internally",
}
_STATEMENT_ERRORS = frozenset({"57014"})
"""Codes in these classes that concern one statement only (`statement_timeout`, a cancel)."""

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def outage_reason(error: BaseException | None) -> str | None:
    """Return why the database is unavailable; None: the error concerns a statement or its values.

    Args:
        error: of asyncpg, of SQLAlchemy (which wraps the driver's error), or of the operating
            system.

    Returns:
        A few words without ids, values, names and addresses, safe to show to every caller.
    """
    for each in _unwrap_errors(error):
        state = getattr(each, "sqlstate", None)
        if isinstance(state, str) and state not in _STATEMENT_ERRORS:
            if state in _SQLSTATES:
                return _SQLSTATES[state]
            if state[:2] in _SQLSTATE_CLASSES:
                return _SQLSTATE_CLASSES[state[:2]]
        if isinstance(each, asyncpg.exceptions.DataError | asyncpg.DataError):
            return None
        if isinstance(each, asyncpg.InternalClientError):
            return "the connection broke within an exchange"
        if isinstance(each, asyncpg.InterfaceError):
            return "the connection was closed"
        if isinstance(each, TimeoutError):
            return "it does not answer in time"
        if isinstance(each, OSError):
            return "a disk is full" if each.errno in _DISK_FULL else "it cannot be reached"
    return None


def _unwrap_errors(error: BaseException | None) -> list[BaseException]:
    """Return the error and the errors that it wraps."""
    found: list[BaseException] = []
    for each in (error, getattr(error, "orig", None)):
        while each is not None and each not in found and len(found) < 8:
            found.append(each)
            each = each.__cause__ if each is not error or hasattr(error, "orig") else None
    return found
