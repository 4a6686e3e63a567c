"""Compute the waits between retries."""

from __future__ import annotations


def exponential_backoff_s(
    first_s: float, failures: int, longest_s: float, *, factor: float = 2.0
) -> float:
    """Return the wait after so many failures in a row: `first_s`, then `factor` times as long each
    time, up to `longest_s`.

    Args:
        first_s: seconds, >= 0.
        failures: any number; below 1 it counts as 1. However many there were, nothing overflows.
        longest_s: seconds, >= 0.
        factor: >= 1.
    """
    wait_s = first_s
    for _ in range(min(max(failures, 1) - 1, 64)):
        wait_s *= factor
        if wait_s >= longest_s:
            break
    return min(wait_s, longest_s)
