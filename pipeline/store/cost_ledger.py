"""The ledger of embedding costs, by tenant, day, source and model.

A passage is charged in the transaction that stores its vector, and a version's reused passages in
the transaction that makes it visible. A process that is killed loses at most the requests in
flight: their vectors are not stored, so the passages are embedded and charged again. Queries are
counted in memory and written every few seconds; a kill loses those seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from livedex.pipeline.costs.bill import ModelPrice
from livedex.pipeline.costs.charges import Charge
from livedex.pipeline.model import PassageId, TenantId
from livedex.pipeline.store.database import Connection, Database
from livedex.pipeline.store.postgres.statements import sql


class VersionCost(NamedTuple):
    """What a version that becomes visible took.

    Attributes:
        source: of the document.
        texts: passages whose vectors are stored with the version.
        tokens: of these.
        reused: passages that had a vector.
        saved_tokens: of these, estimated.
    """

    source: str
    texts: int
    tokens: int
    reused: int
    saved_tokens: int


@dataclass(frozen=True, slots=True)
class CostEntry:
    """The costs of a day, for a source and a model.

    Attributes:
        day: in UTC.
        tenant_id: whose documents.
        source: of the documents; empty for those without one, and for queries.
        model_id: name of the vector space.
        texts: passages that were embedded.
        tokens: of these.
        cost: of these, in US dollars, by the price at the time.
        unpriced_tokens: of these, the tokens without a known price.
        reused_texts: passages of new versions that had a vector.
        saved_tokens: of these, estimated.
        saved_cost: of these, in US dollars.
        queries: texts that were embedded and not stored, most of them for searches.
        query_tokens: of these.
        query_cost: of these, in US dollars.
    """

    day: date
    tenant_id: TenantId
    source: str
    model_id: str
    texts: int
    tokens: int
    cost: Decimal
    unpriced_tokens: int
    reused_texts: int
    saved_tokens: int
    saved_cost: Decimal
    queries: int
    query_tokens: int
    query_cost: Decimal


async def charge_embeddings(
    connection: Connection,
    tenant_id: TenantId,
    model: ModelPrice,
    charges: Mapping[PassageId, Charge],
) -> None:
    """Charge passages whose vectors the transaction has stored; call it last in the transaction.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: of the passages.
        model: that embedded them.
        charges: a charge for each passage.
    """
    if not charges:
        return
    accounts = list({id(c.account): c.account for c in charges.values() if c.account}.values())
    places = {id(account): place for place, account in enumerate(accounts, 1)}
    await connection.execute(
        sql("charge_embeddings"),
        tenant_id,
        model.model_id,
        _usd_per_token(model),
        list(charges),
        [charge.tokens for charge in charges.values()],
        [charge.estimated for charge in charges.values()],
        [places.get(id(charge.account)) for charge in charges.values()],
        [account.document_id for account in accounts],
        [account.fence.version for account in accounts],
        [account.fence.digest for account in accounts],
        [account.source for account in accounts],
    )


async def count_version_costs(
    connection: Connection, tenant_id: TenantId, model: ModelPrice, costs: Sequence[VersionCost]
) -> None:
    """Count what versions took; call it last in the transaction that makes them visible.

    Args:
        connection: in a transaction of the tenant.
        tenant_id: of the versions.
        model: that embedded what was embedded with them.
        costs: of each version.
    """
    counted = [cost for cost in costs if cost.texts or cost.reused]
    if counted:
        await connection.execute(
            sql("count_version_costs"),
            tenant_id,
            model.model_id,
            _usd_per_token(model),
            *(list(column) for column in zip(*counted, strict=True)),
        )


class CostLedger:
    """Reads the ledger, and counts queries in it.

    Every method may raise OutageError and RetryableError.

    Args:
        database: as the application's role.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(
        self,
        tenant_id: TenantId,
        *,
        days: int,
        source: str | None = None,
        model_id: str | None = None,
    ) -> list[CostEntry]:
        """Return the entries of a tenant, by day, source and model.

        Args:
            tenant_id: whose documents.
            days: how many, today included, >= 1.
            source: only of this one; None: of all.
            model_id: only of this one; None: of all.
        """
        if any("\x00" in name for name in (source, model_id) if name is not None):
            return []  # nothing is called so: PostgreSQL stores no NUL
        async with self._database.tenant(tenant_id, "read costs", snapshot=True) as connection:
            rows = await connection.fetch(sql("read_costs"), tenant_id, days, source, model_id)
        return [
            CostEntry(
                row["day"],
                tenant_id,
                row["source"],
                row["model_id"],
                int(row["texts"]),
                int(row["tokens"]),
                row["cost"],
                int(row["unpriced_tokens"]),
                int(row["reused_texts"]),
                int(row["saved_tokens"]),
                row["saved_cost"],
                int(row["queries"]),
                int(row["query_tokens"]),
                row["query_cost"],
            )
            for row in rows
        ]

    async def count_queries(
        self, tenant_id: TenantId, model: ModelPrice, texts: int, tokens: int
    ) -> None:
        """Count texts that were embedded and not stored.

        Args:
            tenant_id: who searched.
            model: that embedded them.
            texts: how many, >= 1.
            tokens: of these.

        Raises:
            TenantDeletedError: nothing is counted for it any more.
        """
        async with self._database.tenant(tenant_id, "count queries", durable=False) as connection:
            await connection.execute(
                sql("count_query_costs"),
                tenant_id,
                model.model_id,
                _usd_per_token(model),
                texts,
                tokens,
            )

    async def merge_past_days(self, tenant_id: TenantId) -> None:
        """Merge the rows of past days, which several connections wrote.

        Args:
            tenant_id: whose.
        """
        async with self._database.tenant(tenant_id, "merge costs", durable=False) as connection:
            await connection.execute(sql("merge_costs"), tenant_id)


def _usd_per_token(model: ModelPrice) -> Decimal | None:
    return model.cost(1)
