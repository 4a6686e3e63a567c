"""Report the costs of embedding: the object of `livedex cost --json` and of GET /v1/cost."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from livedex.pipeline.costs.money import exact_amount
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.store.cost_ledger import CostEntry

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.model import TenantId

CostGroup = Literal["day", "tenant", "source", "model"]
GROUPS: tuple[CostGroup, ...] = get_args(CostGroup)
MAX_DAYS = 366

_VALUES: Mapping[CostGroup, Callable[[CostEntry], str]] = {
    "day": lambda entry: entry.day.isoformat(),
    "tenant": lambda entry: entry.tenant_id,
    "source": lambda entry: entry.source,
    "model": lambda entry: entry.model_id,
}


@dataclass(slots=True)
class CostTotals:
    """Sums over entries of the ledger; see `CostEntry`."""

    texts: int = 0
    tokens: int = 0
    cost: Decimal = Decimal(0)
    unpriced_tokens: int = 0
    reused_texts: int = 0
    saved_tokens: int = 0
    saved_cost: Decimal = Decimal(0)
    queries: int = 0
    query_tokens: int = 0
    query_cost: Decimal = Decimal(0)
    is_priced: bool = True

    def add(self, entry: CostEntry, *, is_priced: bool) -> None:
        """Add an entry.

        Args:
            entry: of the ledger.
            is_priced: whether the price of its model is known.
        """
        for each in fields(self):
            if each.name != "is_priced":
                setattr(self, each.name, getattr(self, each.name) + getattr(entry, each.name))
        self.is_priced &= is_priced

    def as_object(self) -> dict[str, Any]:
        """Return the sums as the interface shows them; amounts are null where no price is known."""
        return {
            "texts": self.texts,
            "tokens": self.tokens,
            "cost": self._amount(self.cost),
            "unpriced_tokens": self.unpriced_tokens,
            "reused": self.reused_texts,
            "saved_tokens": self.saved_tokens,
            "saved_cost": self._amount(self.saved_cost),
            "queries": self.queries,
            "query_tokens": self.query_tokens,
            "query_cost": self._amount(self.query_cost),
        }

    def _amount(self, amount: Decimal) -> dict[str, str] | None:
        return exact_amount(amount) if amount or self.is_priced else None


async def cost_report(
    s: AppContext,
    tenants: Sequence[TenantId],
    *,
    days: int,
    by: Sequence[CostGroup],
    source: str | None = None,
    model: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> dict[str, Any]:
    """Report what tenants spent on embedding.

    Args:
        s: the ledger and the price of the model in use.
        tenants: whose costs.
        days: how many, in UTC, today included, 1 to `MAX_DAYS`.
        by: what the rows of `costs` are grouped by.
        source: only of this one; None: of all.
        model: only of this one; None: of all.
        limit: rows of a page; None: all.
        cursor: from the page before; None: the first.

    Raises:
        RejectedError: the cursor is none that a page returned.
        OutageError, RetryableError: the database is unavailable.
    """
    entries = [
        entry
        for tenant_id in tenants
        for entry in await s.costs.read(tenant_id, days=days, source=source, model_id=model)
    ]
    unpriced = s.model.model_id if s.model.price is None else None
    total = CostTotals()
    for entry in entries:
        total.add(entry, is_priced=_is_priced(entry, unpriced))
    groups = _grouped(entries, by, unpriced)
    keys = sorted(groups)
    after = None if cursor is None else _read_cursor(cursor, len(by))
    left = [key for key in keys if after is None or key > after]
    shown = left if limit is None else left[:limit]
    today = datetime.now(UTC).date()
    price = s.model.price
    return {
        "from": (today - timedelta(days=days - 1)).isoformat(),
        "to": today.isoformat(),
        "model": s.model.model_id,
        "usd_per_million_tokens": None
        if price is None
        else exact_amount(price.usd_per_million_tokens)["amount"],
        "price_as_of": None if price is None or price.as_of is None else price.as_of.isoformat(),
        "total": total.as_object(),
        "costs": [{**dict(zip(by, key, strict=True)), **groups[key].as_object()} for key in shown],
        "next_cursor": _make_cursor(shown[-1]) if len(shown) < len(left) else None,
    }


def costs_by_day(rows: Iterable[Mapping[str, Any]], last: date, days: int) -> list[dict[str, Any]]:
    """Return one row for each day, also for those without costs, oldest first.

    Args:
        rows: grouped by day alone.
        last: the last day.
        days: how many.
    """
    found = {row["day"]: dict(row) for row in rows}
    wanted = [(last - timedelta(days=n)).isoformat() for n in reversed(range(days))]
    return [found.get(day) or {"day": day, **CostTotals().as_object()} for day in wanted]


def _grouped(
    entries: Iterable[CostEntry], by: Sequence[CostGroup], unpriced: str | None
) -> dict[tuple[str, ...], CostTotals]:
    groups: dict[tuple[str, ...], CostTotals] = {}
    for entry in entries:
        key = tuple(_VALUES[name](entry) for name in by)
        groups.setdefault(key, CostTotals()).add(entry, is_priced=_is_priced(entry, unpriced))
    return groups


def _is_priced(entry: CostEntry, unpriced: str | None) -> bool:
    return not entry.unpriced_tokens and entry.model_id != unpriced


def _make_cursor(key: tuple[str, ...]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _read_cursor(cursor: str, parts: int) -> tuple[str, ...]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except ValueError:
        found = None
    if (
        not isinstance(found, list)
        or len(found) != parts
        or not all(isinstance(part, str) for part in found)
    ):
        raise RejectedError(
            "the cursor is none that a page gave: begin with the first page",
            reason="invalid_cursor",
        )
    return tuple(found)
