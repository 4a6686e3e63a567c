"""Which errors mean that the database cannot be used now, and which are about one statement."""

from __future__ import annotations

import errno
import inspect

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, InterfaceError, PendingRollbackError

from livedex.consumers.postgres.acknowledging import queue_outage_cause
from livedex.pipeline.errors import OutageError, RejectedError, RetryableError, TenantDeletedError
from livedex.pipeline.store.database_errors import translate_errors
from livedex.pipeline.store.postgres.errors import outage_reason


def postgres_error(state: str) -> asyncpg.PostgresError:
    """The driver's error for a code, as it makes it of what the server says."""
    return asyncpg.PostgresError.new({"C": state, "M": "words with a value: s3cr3t", "S": "ERROR"})


def wrapped(error: BaseException) -> DBAPIError:
    """As SQLAlchemy hands a driver's error on."""
    adapted = Exception(str(error))
    adapted.__cause__ = error
    return DBAPIError("select 1", {}, adapted)


OUTAGES = [
    "25006",
    "28P01",
    "28000",
    "42501",
    "3D000",
    "53000",
    "53100",
    "53200",
    "53300",
    "53400",
    "57000",
    "57P01",
    "57P02",
    "57P03",
    "57P04",
    "57P05",
    "58000",
    "58030",
    "58P01",
    "XX000",
    "XX001",
    "08000",
    "08003",
    "08006",
    "08001",
    "08004",
    "25P03",
    "25P04",
]
STATEMENTS = [
    "57014",
    "40001",
    "40P01",
    "55P03",
    "23505",
    "23503",
    "22021",
    "22P02",
    "42601",
    "42P01",
    "54000",
    "21000",
    "0A000",
    "LX001",
    "25P02",
    "55000",
]


@pytest.mark.parametrize("state", OUTAGES)
def test_a_code_that_means_not_now_is_an_outage_for_every_part(state: str) -> None:
    error = postgres_error(state)
    cause = outage_reason(error)
    assert cause and "s3cr3t" not in cause
    assert queue_outage_cause(wrapped(error)) == cause
    with pytest.raises(OutageError) as told, translate_errors("keep 3 vectors of d1"):
        raise error
    assert (told.value.component, told.value.cause) == ("database", cause)
    assert "s3cr3t" not in str(told.value), "an error may hold values of rows"


@pytest.mark.parametrize("state", STATEMENTS)
def test_a_code_about_a_statement_is_none(state: str) -> None:
    assert outage_reason(postgres_error(state)) is None
    assert queue_outage_cause(wrapped(postgres_error(state))) is None
    with (
        pytest.raises(
            (asyncpg.PostgresError, RetryableError, RejectedError, TenantDeletedError)
        ) as told,
        translate_errors("x"),
    ):
        raise postgres_error(state)
    assert not isinstance(told.value, OutageError)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (asyncpg.InternalClientError("cannot switch to state 15"), "broke"),
        (asyncpg.InterfaceError("connection is closed"), "closed"),
        (ConnectionResetError(), "reached"),
        (TimeoutError(), "in time"),
        (OSError(errno.ENOSPC, "No space left"), "disk is full"),
        (OSError(errno.EDQUOT, "quota"), "disk is full"),
        (OSError(errno.EHOSTUNREACH, "no route to 10.0.0.7"), "reached"),
    ],
)
def test_what_the_driver_and_the_system_say_is_told_without_addresses(
    error: Exception, said: str
) -> None:
    cause = outage_reason(error)
    assert cause is not None and said in cause and "10.0.0.7" not in cause
    assert queue_outage_cause(wrapped(error)) == cause
    with pytest.raises(OutageError), translate_errors("x"):
        raise error


def test_what_sqlalchemy_says_of_a_connection_that_was_invalidated_is_an_outage() -> None:
    assert (
        queue_outage_cause(
            PendingRollbackError("Can't reconnect until invalid transaction is rolled back.")
        )
        is not None
    )
    assert queue_outage_cause(InterfaceError("x", {}, Exception("unknown"))) is None
    assert queue_outage_cause(ValueError("x")) is None and outage_reason(None) is None


def test_values_that_the_driver_cannot_encode_are_no_outage() -> None:
    error = asyncpg.exceptions.DataError("invalid input for query argument $1")
    assert outage_reason(error) is None
    with pytest.raises(RejectedError), translate_errors("x"):
        raise error


def test_our_own_errors_pass_as_they_are() -> None:
    for error in (RejectedError("no"), RetryableError("later"), OutageError("embedder", "away")):
        with pytest.raises(type(error)) as told, translate_errors("x"):
            raise error
        assert told.value is error


def test_every_error_class_of_the_driver_is_decided_one_way() -> None:
    classes = [
        each
        for _, each in inspect.getmembers(asyncpg, inspect.isclass)
        if issubclass(each, asyncpg.PostgresError) and getattr(each, "sqlstate", None)
    ]
    assert len(classes) > 100
    for each in classes:
        is_outage = outage_reason(each("x")) is not None
        state = str(each.sqlstate)
        assert is_outage == (
            (state[:2] in ("08", "53", "57", "58", "XX") and state != "57014") or state in OUTAGES
        ), state
