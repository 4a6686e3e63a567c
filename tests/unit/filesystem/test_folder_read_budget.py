"""How long a file that keeps growing waits to be read again; no clock runs here."""

from __future__ import annotations

from itertools import pairwise

import pytest

from livedex.connectors.filesystem.read_budget import BYTES_A_SECOND, LONGEST_S, ReadBudget


@pytest.mark.parametrize("size", [100, 60_000, 6_000_000, 60_000_000])
@pytest.mark.parametrize("every_s", [0.5, 1.0, 3.0])
def test_a_file_is_read_by_what_it_costs_and_once_a_minute_at_least(
    size: int, every_s: float
) -> None:
    budget, now, reads = ReadBudget(), 0.0, list[float]()
    while now < 1_200:
        if budget.wait_s(b"a", now) <= 0:
            budget.note(b"a", size, now)
            reads.append(now)
        now += every_s
    longest = max(after - before for before, after in pairwise(reads))
    assert longest <= max(LONGEST_S, every_s) + every_s
    late = [at for at in reads if at >= 200]
    assert len(late) * size / 1_000 <= max(BYTES_A_SECOND, size / LONGEST_S) * 1.2
    if size / every_s < BYTES_A_SECOND:
        assert longest == every_s


def test_the_first_few_changes_of_any_file_and_those_after_a_pause_wait_for_nothing() -> None:
    budget = ReadBudget()
    for n in range(2):
        budget.note(b"a", 6_000_000, float(n))
    assert budget.wait_s(b"a", 2.0) == 0
    budget.note(b"a", 6_000_000, 2.0)
    assert 40 < budget.wait_s(b"a", 3.0) < 60
    assert budget.wait_s(b"b", 3.0) == 0
    assert budget.wait_s(b"a", 200.0) == 0
