"""What an error means for its event."""

import pytest

from livedex.pipeline.errors import (
    NotScheduledError,
    OutageError,
    PartialOutageError,
    RejectedError,
    RetryableError,
    TooLargeError,
)
from livedex.pipeline.stages.outcome import (
    MAX_ATTEMPTS,
    MAX_RETRY_DELAY_S,
    DeadLettered,
    Pause,
    Retry,
    outcome_of,
)


def test_an_outage_pauses_however_often_it_was_tried() -> None:
    assert all(
        isinstance(outcome_of(OutageError("database", "away"), n), Pause)
        for n in (1, MAX_ATTEMPTS, 1000)
    )
    assert outcome_of(OutageError("embedder", "busy", retry_after_s=7.5), 1) == Pause(
        "embedder", 7.5, "busy", "busy"
    )


def test_an_outage_of_a_part_sends_back_the_event_alone_and_counts_no_attempt() -> None:
    assert all(
        outcome_of(PartialOutageError("broker", "no leader"), n)
        == Retry(1.0, "no leader", counts_as_attempt=False)
        for n in (1, MAX_ATTEMPTS, 1000)
    )


@pytest.mark.parametrize("error", [RejectedError("never", reason="x"), TooLargeError("never")])
def test_what_never_works_is_dead_at_once(error: RejectedError) -> None:
    assert outcome_of(error, 1) == DeadLettered(error.reason, "never")


@pytest.mark.parametrize("error", [RetryableError("locked"), ZeroDivisionError()])
def test_anything_else_is_tried_again_with_growing_waits_and_then_dead(error: Exception) -> None:
    outcomes = [outcome_of(error, n) for n in range(1, MAX_ATTEMPTS + 1)]
    waits = [o.after_s for o in outcomes if isinstance(o, Retry)]
    assert len(waits) == MAX_ATTEMPTS - 1 and waits == sorted(set(waits))
    assert isinstance(outcomes[-1], DeadLettered)


def test_a_wait_that_the_other_side_names_is_kept() -> None:
    assert outcome_of(RetryableError("later", retry_after_s=33.0), 1) == Retry(33.0, "later")


def test_attempts_lie_further_apart_where_somebody_elses_server_is_away() -> None:
    outcomes = [
        outcome_of(RetryableError("away", first_wait_s=1.0), n) for n in range(1, MAX_ATTEMPTS + 1)
    ]
    assert [o.after_s for o in outcomes if isinstance(o, Retry)] == [1.0, 4.0, 16.0, 64.0]
    assert outcomes[-1] == DeadLettered("retries_exhausted", f"after {MAX_ATTEMPTS} attempts: away")


@pytest.mark.parametrize(
    ("first_s", "lasts_s"),
    [(1.0, 1800.0), (0.1, 180.0), (1.0, 180.0), (None, 0.0), (0.1, 86_400.0)],
)
def test_what_is_worth_it_is_tried_again_for_as_long_as_was_said(
    first_s: float | None, lasts_s: float
) -> None:
    error = RetryableError("away", first_wait_s=first_s)
    error.retry_for_s = lasts_s
    waits = []
    while isinstance(outcome := outcome_of(error, len(waits) + 1), Retry):
        waits.append(outcome.after_s)
    assert lasts_s <= sum(waits) < max(lasts_s, 10) + MAX_RETRY_DELAY_S
    assert waits == sorted(waits) and max(waits) <= MAX_RETRY_DELAY_S
    assert outcome == DeadLettered("retries_exhausted", f"after {len(waits) + 1} attempts: away")


def test_what_had_no_turn_comes_back_however_often_that_was() -> None:
    assert {
        outcome_of(NotScheduledError("others first", retry_after_s=0.5), n)
        for n in (1, MAX_ATTEMPTS, 1000)
    } == {Retry(0.5, "others first", counts_as_attempt=False)}


def test_of_an_unexpected_error_the_kind_and_the_first_line_are_told() -> None:
    said = (
        "duplicate key value violates unique constraint\nDETAIL:  Key (document_id)=(secret) "
        "already exists.\nHINT:  x"
    )
    dead = outcome_of(ValueError(said), MAX_ATTEMPTS)
    assert dead == DeadLettered(
        "failed",
        f"after {MAX_ATTEMPTS} attempts: ValueError: duplicate key value violates unique "
        "constraint",
    )
    assert outcome_of(ZeroDivisionError(), MAX_ATTEMPTS) == DeadLettered(
        "failed", f"after {MAX_ATTEMPTS} attempts: ZeroDivisionError"
    )
    assert len(str(outcome_of(ValueError("x" * 5000), MAX_ATTEMPTS))) < 500
