"""How an event ends in a stage, and the one place that maps a kind of error to an outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from livedex.pipeline.errors import (
    LivedexError,
    NotScheduledError,
    OutageError,
    PartialOutageError,
    RejectedError,
    RetryableError,
    TenantDeletedError,
)
from livedex.pipeline.events.event import Event, ManifestRef
from livedex.pipeline.runtime.backoff import EVENT_RETRY, OUTAGE

MAX_ATTEMPTS = 5
_MAX_DETAIL_CHARACTERS = 300
FIRST_RETRY_DELAY_S, MAX_RETRY_DELAY_S = EVENT_RETRY.first_s, EVENT_RETRY.max_s
_PARTIAL_OUTAGE_DELAY_S = 1.0


@dataclass(frozen=True, slots=True)
class Forward:
    """Forward an event to the next stage."""

    event: Event[ManifestRef]


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing remains to be done.

    Attributes:
        superseded: a newer version is known, and the event had no effect.
    """

    superseded: bool = False


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """Write a dead letter with the exact bytes: no retry can help.

    Attributes:
        reason: a short code from a closed set.
        detail: what is wrong and what to do.
    """

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry the event.

    Attributes:
        after_s: seconds to wait, at least.
        detail: the cause.
        counts_as_attempt: whether the number of attempts grows.
    """

    after_s: float
    detail: str
    counts_as_attempt: bool = True


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause the stage until a dependency is available; no event is at fault.

    Attributes:
        component: the dependency.
        after_s: seconds to wait.
        detail: what happened, for the log.
        cause: the same without ids and names, for the health.
    """

    component: str
    after_s: float
    detail: str
    cause: str


Outcome: TypeAlias = Forward | Finished | DeadLettered | Retry | Pause


def outcome_of(error: Exception, attempt: int, outages: int = 0) -> Outcome:
    """Return the outcome of an event whose stage raised an error.

    Args:
        error: of the stage.
        attempt: number of this attempt, >= 1; attempts that end in an outage are not counted.
        outages: in a row before this attempt.
    """
    if isinstance(error, PartialOutageError):  # a retry holds no worker: other events continue
        return Retry(
            error.retry_after_s or _PARTIAL_OUTAGE_DELAY_S, str(error), counts_as_attempt=False
        )
    if isinstance(error, OutageError):
        return Pause(
            error.component,
            error.retry_after_s or OUTAGE.delay_s(outages + 1),
            str(error),
            error.cause,
        )
    if isinstance(error, TenantDeletedError):
        return Finished(superseded=True)
    if isinstance(error, RejectedError):
        return DeadLettered(error.reason, str(error))
    if isinstance(error, NotScheduledError):
        return Retry(
            error.retry_after_s or FIRST_RETRY_DELAY_S, str(error), counts_as_attempt=False
        )
    detail = str(error) if isinstance(error, LivedexError) else _unexpected(error)
    known = error if isinstance(error, RetryableError) else RetryableError(detail)
    waits = retry_delays_s(known.first_retry_delay_s or FIRST_RETRY_DELAY_S, known.retry_for_s)
    if attempt > len(waits):
        reason = "retries_exhausted" if isinstance(error, RetryableError) else "failed"
        return DeadLettered(reason, f"after {attempt} attempts: {detail}")
    return Retry(known.retry_after_s or waits[attempt - 1], detail)


def retry_delays_s(first_s: float, retry_for_s: float) -> list[float]:
    """Return the seconds between attempts, by the schedule `EVENT_RETRY`.

    Args:
        first_s: seconds before the second attempt, > 0.
        retry_for_s: the delays add up to at least this; there are never fewer than `MAX_ATTEMPTS`
            attempts.
    """
    found, next_s, total_s = list[float](), first_s, 0.0
    while len(found) < MAX_ATTEMPTS - 1 or total_s < retry_for_s:
        found.append(next_s)
        total_s += next_s
        next_s = min(EVENT_RETRY.factor * next_s, MAX_RETRY_DELAY_S)
    return found


def _unexpected(error: Exception) -> str:
    """Return the class and first line of an unexpected error: further lines of a database driver's
    error contain values of rows.
    """
    lines = str(error).strip().splitlines()
    return (
        f"{type(error).__name__}: {lines[0][:_MAX_DETAIL_CHARACTERS]}"
        if lines
        else type(error).__name__
    )
