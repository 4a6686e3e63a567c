"""Compute the delays between retries, and name every schedule of the pipeline in one table."""

from __future__ import annotations

from dataclasses import dataclass


def exponential_backoff_s(
    first_s: float, failures: int, longest_s: float, *, factor: float = 2.0
) -> float:
    """Return the delay after a number of failures in a row: `first_s`, then `factor` times as long
    each time, up to `longest_s`.

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


@dataclass(frozen=True, slots=True)
class Backoff:
    """An exponential schedule of delays.

    Attributes:
        first_s: seconds after the first failure, > 0.
        max_s: upper bound in seconds.
        factor: between two delays, >= 1.
    """

    first_s: float
    max_s: float
    factor: float = 2.0

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait after `failures` failures in a row."""
        return exponential_backoff_s(self.first_s, failures, self.max_s, factor=self.factor)


EVENT_RETRY = Backoff(0.1, 120.0, factor=4.0)
"""An event whose stage failed."""
OUTAGE = Backoff(0.5, 5.0)
"""A stage whose dependency is unavailable and names no time to wait for."""
EMBEDDING_REQUEST = Backoff(0.4, 5.0)
"""A request to the embedding provider; with full jitter."""
EMBEDDING_PROBE = Backoff(0.5, 15.0)
"""A probe of an embedding provider that is unavailable."""
EMBEDDING_TRIAL = Backoff(1.0, 10.0)
"""A text that failed alone; with full jitter."""
EMBEDDING_BACKFILL = Backoff(0.5, 10.0)
"""The search for stored passages without a vector, while there is none or it fails."""
CLAIM_POLL = Backoff(0.05, 0.5)
"""A passage that another process embeds."""
KAFKA_RECONNECT = Backoff(1.0, 10.0)
"""A connection to Kafka."""
SUPERVISION = Backoff(1.0, 30.0)
"""A background task that ended with an error."""
