"""When something is tried again: the published schedule, with a little chance."""

from __future__ import annotations

from livedex.consumers.notify.schedule import RETRY_DELAYS_S, retry_delay_s


def test_the_waits_are_those_of_standard_webhooks() -> None:
    waits = [
        retry_delay_s(failed, chance=lambda low, high: (low + high) / 2) for failed in range(1, 10)
    ]
    assert waits == list(RETRY_DELAYS_S)
    assert (waits[0], waits[1], sum(waits)) == (5, 300, 75 * 3600 + 35 * 60 + 5)


def test_what_failed_together_does_not_come_again_together() -> None:
    waits = {retry_delay_s(2) for _ in range(50)}
    assert len(waits) > 40
    assert all(270 <= wait <= 330 for wait in waits)
