"""Which broker a case of a test runs on.

What a broker does to a record, and how often it delivers it, is proven on both in `tests/contract`
and in the suites of this folder that take the fixture `settings` as it is. A test of what comes
before or after the broker runs each of its cases once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

BROKERS = ("postgres", "kafka")
on_postgres = pytest.mark.parametrize("settings", ["postgres"], indirect=True)


def on_alternating_brokers(
    names: Sequence[str], cases: Iterable[Sequence[object]], fixtures: Sequence[str] = ()
) -> pytest.MarkDecorator:
    """Run each case on one broker, and the next case on the other.

    Args:
        names: of the values of a case.
        fixtures: those of the names that are fixtures.
    """
    return pytest.mark.parametrize(
        ("settings", *names),
        [(BROKERS[n % 2], *case) for n, case in enumerate(cases)],
        indirect=["settings", *fixtures],
    )
