"""Translate errors of the driver into those of `livedex.pipeline.errors`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import asyncpg

from livedex.pipeline.errors import (
    LivedexError,
    OutageError,
    RejectedError,
    RetryableError,
    TenantDeletedError,
)
from livedex.pipeline.store.postgres.errors import outage_reason

_TENANT_DELETED_SQLSTATE = "LX001"  # raised by the schema, see migrations/0004_access.sql


_RETRYABLE = (
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.QueryCanceledError,
    asyncpg.ForeignKeyViolationError,
)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Turn the driver's errors into Livedex's.

    Args:
        what: what was being done, with ids and versions but without text.

    Raises:
        OutageError: the database is away.
        RetryableError: it works the next time (deadlock, serialisation, a passage that was cleared
        away meanwhile).
        RejectedError: the values can never be stored.
        TenantDeletedError: they are of a tenant that was deleted.
    """
    try:
        yield
    except LivedexError:
        raise
    except _RETRYABLE as exc:
        raise RetryableError(f"{what}: {type(exc).__name__}") from exc
    except Exception as exc:
        if isinstance(
            exc,
            asyncpg.DataError | asyncpg.ProgramLimitExceededError | asyncpg.exceptions.DataError,
        ):
            raise RejectedError(f"{what}: {_rejection_reason(exc)}", reason="not_storable") from exc
        if (cause := outage_reason(exc)) is not None:
            raise OutageError(
                "database", f"{what}: {cause} ({_error_name(exc)})", cause=cause
            ) from exc
        if isinstance(exc, asyncpg.PostgresError) and exc.sqlstate == _TENANT_DELETED_SQLSTATE:
            raise TenantDeletedError(f"{what}: the tenant was deleted") from exc
        raise


def _error_name(exc: Exception) -> str:
    """The driver's name for an error, and its words where these hold no values."""
    return (
        f"{type(exc).__name__}: {exc}"
        if isinstance(exc, asyncpg.InterfaceError | OSError) and str(exc)
        else type(exc).__name__
    )


def _rejection_reason(exc: Exception) -> str:
    """Why values can never be stored, and what to do.

    What the driver says holds the values themselves, and hints for who owns the database.
    """
    if isinstance(exc, asyncpg.ProgramLimitExceededError):
        if "index row" in str(exc):
            return (
                "a name in it is too long for an index of the database: let an id have 2000 "
                "bytes of UTF-8 at most"
            )
        if "tsvector" in str(exc):
            return (
                "it holds more different words than one passage can have in the keyword index: "
                "split it"
            )
        return "it is larger than the database can hold: split it"
    if isinstance(
        exc, asyncpg.CharacterNotInRepertoireError | asyncpg.UntranslatableCharacterError
    ):
        return (
            "it holds a NUL or another character that no text in the database can have: leave it "
            "out"
        )
    if isinstance(exc, asyncpg.NumericValueOutOfRangeError | asyncpg.DatetimeFieldOverflowError):
        return (
            "a number or a time in it is out of the range that the database has: send another "
            "one, or none"
        )
    return (
        "a value in it is none that the database can hold (SQLSTATE "
        f"{getattr(exc, 'sqlstate', None) or '22000'}): look for odd characters, numbers or times"
    )
