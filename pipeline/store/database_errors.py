"""Translation of asyncpg's errors into those of `livedex.pipeline.errors`."""

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
    """Translate the driver's errors in the block into Livedex's.

    Args:
        what: description of the operation for error messages: ids and versions, no document text.

    Raises:
        OutageError: the database is unavailable.
        RetryableError: a retry can succeed (deadlock, serialization failure, a passage that was
            garbage-collected meanwhile).
        RejectedError: the values can never be stored.
        TenantDeletedError: the tenant was deleted.
        LivedexError: raised by the block itself; passed on unchanged.
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
    """Return the error's class, with its message if that contains no values."""
    return (
        f"{type(exc).__name__}: {exc}"
        if isinstance(exc, asyncpg.InterfaceError | OSError) and str(exc)
        else type(exc).__name__
    )


def _rejection_reason(exc: Exception) -> str:
    """Return why values can never be stored, and what to do.

    The driver's own message is left out: it contains the values.
    """
    if isinstance(exc, asyncpg.ProgramLimitExceededError):
        if "index row" in str(exc):
            return (
                "an id or a name in it is too long for a database index: use at most 2000 bytes "
                "of UTF-8"
            )
        if "tsvector" in str(exc):
            return (
                "it has more distinct words than the keyword index allows for one passage: split "
                "the document"
            )
        return "it is larger than the database can store: split it"
    if isinstance(
        exc, asyncpg.CharacterNotInRepertoireError | asyncpg.UntranslatableCharacterError
    ):
        return (
            "it contains NUL or another character that the database cannot store: remove the "
            "character"
        )
    if isinstance(exc, asyncpg.NumericValueOutOfRangeError | asyncpg.DatetimeFieldOverflowError):
        return "a number or a time in it is outside the range of the database: change or remove it"
    return (
        "the database cannot store a value in it (SQLSTATE "
        f"{getattr(exc, 'sqlstate', None) or '22000'}): check its characters, numbers and times"
    )
