"""Waits between retries grow, end at a bound, and never overflow."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from livedex.pipeline.errors import OutageError
from livedex.pipeline.runtime.backoff import exponential_backoff_s
from livedex.pipeline.runtime.clock import Clock
from livedex.pipeline.stages.outcome import Pause, outcome_of


def test_waits_grow_up_to_a_bound() -> None:
    assert [exponential_backoff_s(0.5, n, 5.0) for n in (0, 1, 2, 3, 4, 5, 6)] == [
        0.5,
        0.5,
        1.0,
        2.0,
        4.0,
        5.0,
        5.0,
    ]
    assert exponential_backoff_s(0.1, 3, 100.0, factor=4) == pytest.approx(1.6)
    assert (
        exponential_backoff_s(0.0, 10**9, 5.0) == 0.0 and exponential_backoff_s(9.0, 1, 5.0) == 5.0
    )


@pytest.mark.parametrize("n", [1, 63, 64, 1023, 1024, 1025, 10**6, 10**400])
def test_however_long_it_lasts_nothing_overflows(n: int) -> None:
    paused = outcome_of(OutageError("database", "away"), 1, n)
    assert isinstance(paused, Pause) and 0 < paused.after_s <= 5
    assert isinstance(outcome_of(OutageError("database", "away"), min(n, 10**6)), Pause)
    assert 0 <= Clock(uniform=lambda low, high: high).backoff_s(n) <= 5.0


def test_nothing_else_computes_a_power_without_a_bound() -> None:
    root = Path(__file__).parents[2]
    paths = (
        path
        for folder in ("livedex", "pipeline", "consumers", "connectors")
        for path in sorted((root / folder).rglob("*.py"))
    )
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow | ast.LShift)
        and not _is_bounded(node.right)
    ]
    assert found == [], "use `exponential_s`: a count of failures may be any number"


def _is_bounded(exponent: ast.expr) -> bool:
    if isinstance(exponent, ast.Call):
        return isinstance(exponent.func, ast.Name) and exponent.func.id == "min"
    return isinstance(exponent, ast.Constant) or (
        isinstance(exponent, ast.UnaryOp) and isinstance(exponent.operand, ast.Constant)
    )
