"""The plot of `livedex cost`, and its rows by day."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from livedex.app.cost_report import costs_by_day
from livedex.cli import cost as command


def row(day: str, amount: str | None, tokens: int = 0) -> dict[str, Any]:
    money = None if amount is None else {"amount": amount, "currency": "USD"}
    return {"day": day, "cost": money, "query_cost": money, "tokens": tokens, "query_tokens": 0}


@pytest.mark.parametrize("full", ["█", "#"])
def test_the_dearest_day_has_the_longest_bar(full: str) -> None:
    days = [
        row("2026-11-28", None),
        row("2026-11-29", "0.5", 10),
        row("2026-11-30", "0", 0),
        row("2026-12-01", "1", 20),
    ]
    lines = command.plot_days(days, has_blocks=full == "█")
    assert [line.count(full) for line in lines] == [15, 0, 30]
    assert lines[0].startswith("2026-11-29") and lines[0].endswith("1.0000 USD  10 tokens")
    assert lines[1] == "2026-11-30"


def test_without_any_price_tokens_are_plotted() -> None:
    lines = command.plot_days([row("2026-11-30", None, 1), row("2026-12-01", None, 4000)])
    assert "USD" not in "".join(lines) and lines[1].endswith("4000 tokens")
    assert lines[0].split("  ")[1].strip()  # even the smallest day is seen


def test_a_long_time_is_plotted_by_weeks() -> None:
    days = costs_by_day([row("2026-12-01", "2", 7)], date(2026, 12, 1), 90)
    assert len(days) == 90 and days[0]["tokens"] == 0
    lines = command.plot_days(days)
    assert [line.split("  ")[0] for line in lines] == ["2026-12-01"]
    early = costs_by_day(
        [row("2026-09-10", "1", 5), row("2026-12-01", "2", 7)], date(2026, 12, 1), 90
    )
    lines = command.plot_days(early)
    assert len(lines) == 12 and lines[-1].startswith("2026-11-25") and "7 tokens" in lines[-1]
    assert lines[0].startswith("2026-09-10") and "5 tokens" in lines[0]
