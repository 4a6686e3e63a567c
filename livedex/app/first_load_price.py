"""The plan and the price of the first load of sources, for a model that has a price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from livedex.app.plan import Plan, plan_with_index, plan_without_index
from livedex.app.wiring import open_app_context
from livedex.pipeline.costs.price_list import Price, load_price_list
from livedex.pipeline.settings.folder_source import FolderSource
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.store.embedded.server import is_initialised
from livedex.pipeline.store.source_store import SourceStore

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext

_CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class FirstLoadPrice:
    """What the first load of a source takes.

    Attributes:
        source: the folder.
        plan: what a sync of it would do.
        price: of the model.
    """

    source: FolderSource
    plan: Plan
    price: Price

    @property
    def cost(self) -> Decimal:
        """Return the price of the load in US dollars, by the estimate of its tokens."""
        return self.price.cost(self.plan.tokens)


async def first_load_prices(
    settings: Settings, sources: Sequence[FolderSource], data: Path
) -> list[FirstLoadPrice]:
    """Return what the first loads of sources take, of those that were never scanned to the end.

    Nothing is planned for a model that is free or whose price is not known.

    Args:
        settings: of the installation.
        sources: that are to be watched.
        data: the data directory.

    Raises:
        ConfigError: the settings or the environment do not allow it.
        OutageError: a folder or the database is unavailable.
    """
    prices = load_price_list(settings.prices)
    price = prices.price(settings.embedder, url=settings.embedder_url)
    if price is None or not price.usd_per_million_tokens or not sources:
        return []
    if settings.database_url is None and not is_initialised(data):
        plans = [await plan_without_index(source, settings, data) for source in sources]
        return [
            FirstLoadPrice(source, plan, price) for source, plan in zip(sources, plans, strict=True)
        ]
    async with open_app_context(settings, data, connections=_CONNECTIONS) as s:
        return [
            FirstLoadPrice(source, await plan_with_index(source, s), price)
            for source in await _never_scanned(s, sources)
        ]


async def _never_scanned(s: AppContext, sources: Sequence[FolderSource]) -> list[FolderSource]:
    scanned = {
        (found.tenant_id, found.name)
        for found in await SourceStore(s.database).all()
        if found.scanned_at is not None
    }
    return [source for source in sources if (source.tenant, source.name) not in scanned]
