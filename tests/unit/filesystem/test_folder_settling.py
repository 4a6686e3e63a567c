"""When a file counts as finished; no clock runs here."""

from __future__ import annotations

import math
import os

import pytest

from livedex.connectors.filesystem.debouncer import (
    EMPTY_QUIET_S,
    MAX_DELAY_S,
    QUIET_S,
    UNKNOWN_WRITER_QUIET_S,
    Debouncer,
    remaining_quiet_s,
)

NOW_NS = 1_700_000_000_000_000_000


def stat(age_s: float) -> os.stat_result:
    changed = NOW_NS - int(age_s * 1e9)
    return os.stat_result(
        (0o100644, 1, 1, 1, 0, 0, 5, 0, 0, 0), {"st_ctime_ns": changed, "st_mtime_ns": changed}
    )


def rest(
    age_s: float,
    *,
    writing: bool | None = False,
    emptied: bool = False,
    unchanged_s: float = 0.0,
    quiet_s: float = QUIET_S,
) -> float:
    found = stat(age_s)
    return remaining_quiet_s(
        found,
        now_ns=NOW_NS,
        quiet_s=quiet_s,
        unchanged_s=unchanged_s,
        emptied=emptied,
        writing=writing,
    )


def test_a_closed_file_rests_once_it_was_left_alone_for_the_quiet_time() -> None:
    assert rest(QUIET_S) == 0
    assert rest(0.005) == pytest.approx(QUIET_S - 0.005)


def test_a_file_that_is_open_for_writing_never_rests() -> None:
    assert rest(1_000, writing=True) > 0


def test_where_the_system_does_not_tell_it_takes_longer() -> None:
    assert rest(0.1, writing=None) == pytest.approx(UNKNOWN_WRITER_QUIET_S - 0.1)
    assert rest(UNKNOWN_WRITER_QUIET_S, writing=None) == 0


def test_a_file_that_was_emptied_is_not_believed_at_once() -> None:
    assert rest(0.1, emptied=True) == pytest.approx(EMPTY_QUIET_S - 0.1)


def test_a_disk_whose_clock_is_ahead_is_judged_by_what_was_seen() -> None:
    assert rest(-60) == UNKNOWN_WRITER_QUIET_S
    assert rest(-60, unchanged_s=UNKNOWN_WRITER_QUIET_S) == 0


def test_a_path_waits_once_however_often_it_is_hinted_at() -> None:
    settling = Debouncer()
    for _ in range(5):
        settling.schedule(b"a", 1.0)
    assert [waiting.path for waiting in settling.take(1.0, 10)] == [b"a"]
    assert settling.next_due() == math.inf


def test_a_hint_that_comes_during_the_work_stays() -> None:
    settling = Debouncer()
    settling.schedule(b"a", 1.0)
    (waiting,) = settling.take(1.0, 10)
    settling.schedule(b"a", 1.1)
    settling.done(waiting)
    assert settling.is_pending(b"a")
    assert [again.path for again in settling.take(1.1, 10)] == [b"a"]


def test_a_new_hint_brings_a_long_wait_forward() -> None:
    settling = Debouncer()
    settling.schedule(b"a", 1.0)
    (waiting,) = settling.take(1.0, 10)
    settling.reschedule(waiting, 1.0, EMPTY_QUIET_S)
    assert settling.next_due() == 2.0
    settling.schedule(b"a", 1.2)
    assert settling.next_due() < 1.3
    (again,) = settling.take(1.3, 10)
    assert again.first == 1.0, "it still waits since the first hint"


def test_a_path_that_never_rests_becomes_overdue() -> None:
    settling = Debouncer()
    settling.schedule(b"a", 1.0)
    now = 1.0
    while not settling.is_overdue(waiting := settling.take(now, 1)[0], now):
        settling.reschedule(waiting, now, 0.1)
        settling.schedule(b"a", now)
        now = settling.next_due()
    assert now == pytest.approx(1.0 + MAX_DELAY_S, abs=0.2)


def test_a_person_who_saves_every_quarter_of_a_second_is_never_slowed_down() -> None:
    settling = Debouncer()
    for n in range(200):
        assert settling.quiet_s(b"a", n / 4) == QUIET_S
        settling.record_published(b"a", n / 4)


def test_a_program_that_saves_all_the_time_is_given_more_and_more_and_soon_less_again() -> None:
    settling, now = Debouncer(), 0.0
    waits: list[float] = []
    while now < 10:
        waits.append(settling.quiet_s(b"a", now))
        now += waits[-1]
        settling.record_published(b"a", now)
    assert len(waits) < 40
    assert max(waits) > 0.5
    assert settling.quiet_s(b"a", now + 30) == QUIET_S


def test_what_is_taken_is_bounded_and_in_order() -> None:
    settling = Debouncer()
    for n in (3, 1, 2):
        settling.schedule(b"%d" % n, 0.0, delay_s=n)
    assert [waiting.path for waiting in settling.take(10.0, 2)] == [b"1", b"2"]
    assert settling.pending() == {b"1", b"2", b"3"}
