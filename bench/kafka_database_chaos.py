"""`database-chaos` with Apache Kafka as the broker."""

from __future__ import annotations

import secrets

from bench.database_chaos import KILLS, OPERATIONS, measure_and_show
from bench.fleet import a_kafka
from livedex.pipeline.settings.settings import KAFKA


async def run(kills: int = KILLS, operations: int = OPERATIONS) -> None:
    """Print the table.

    Args:
        kills: how often sessions are ended.
        operations: edits.
    """
    with a_kafka() as bootstrap:
        settings = {"LIVEDEX_BROKER_URL": KAFKA + bootstrap, "LIVEDEX_KAFKA_PREFIX": f"bench-{secrets.token_hex(4)}."}
        await measure_and_show(kills, operations, "Kafka", settings)
