"""Compare two configurations on the same questions with a paired bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Verdict = Literal["loss", "gain", "no difference"]
_RESAMPLES = 10_000
_CELLS = 2_000_000  # of a batch of resamples


@dataclass(frozen=True, slots=True)
class Difference:
    """How a measure differs between two configurations.

    Attributes:
        before, after: the mean of each.
        low, high: the 95 % interval of `after - before`.
        p: two-sided, of the hypothesis that there is no difference.
    """

    before: float
    after: float
    low: float
    high: float
    p: float

    @property
    def mean(self) -> float:
        """The mean of `after - before`."""
        return self.after - self.before

    @property
    def verdict(self) -> Verdict:
        """`loss` or `gain` where the interval lies on one side of 0."""
        if self.high < 0:
            return "loss"
        return "gain" if self.low > 0 else "no difference"


def compare_paired(before: Sequence[float], after: Sequence[float], *, seed: int = 0) -> Difference:
    """Return the difference of two lists of values of the same questions.

    Args:
        before, after: a value a question, in the same order; at least one.
        before: a value for each question.
        after: a value for each question, in the same order.
        seed: of the resamples; the same seed gives the same interval.

    Raises:
        ValueError: the lists differ in length, or are empty.
    """
    first, second = np.asarray(before, float), np.asarray(after, float)
    if first.shape != second.shape or first.size == 0:
        raise ValueError("a paired comparison needs the same questions on both sides")
    deltas, generator = second - first, np.random.default_rng(seed)
    batch = max(1, _CELLS // deltas.size)
    means = np.concatenate(
        [
            deltas[generator.integers(deltas.size, size=(size, deltas.size))].mean(axis=1)
            for begin in range(0, _RESAMPLES, batch)
            if (size := min(batch, _RESAMPLES - begin))
        ]
    )
    low, high = np.percentile(means, [2.5, 97.5])
    tail = min(int((means <= 0).sum()), int((means >= 0).sum()))
    p = min(1.0, 2 * (tail + 1) / (_RESAMPLES + 1))
    return Difference(float(first.mean()), float(second.mean()), float(low), float(high), p)
