"""The paired bootstrap finds a planted loss, and none between equal runs."""

from __future__ import annotations

import numpy as np
import pytest

from livedex.eval.paired_bootstrap import compare_paired


def test_a_planted_loss_is_found() -> None:
    generator = np.random.default_rng(7)
    before = generator.uniform(0.2, 1.0, 225)
    after = before - 0.03 + generator.normal(0, 0.1, 225)
    found = compare_paired(before.tolist(), after.tolist())
    assert found.verdict == "loss" and found.p < 0.01
    assert found.low < -0.03 < found.high < 0


def test_equal_runs_do_not_differ() -> None:
    values = np.random.default_rng(8).uniform(0, 1, 225).tolist()
    found = compare_paired(values, values)
    assert (found.mean, found.low, found.high, found.p) == (0, 0, 0, 1)
    assert found.verdict == "no difference"


def test_noise_without_a_loss_is_seldom_called_one() -> None:
    generator = np.random.default_rng(9)
    verdicts = []
    for _ in range(40):
        before = generator.uniform(0, 1, 100)
        after = before + generator.normal(0, 0.2, 100)
        verdicts.append(compare_paired(before.tolist(), after.tolist()).verdict)
    assert verdicts.count("no difference") >= 34


def test_a_comparison_needs_the_same_questions() -> None:
    with pytest.raises(ValueError, match="same questions"):
        compare_paired([1.0], [1.0, 0.5])
