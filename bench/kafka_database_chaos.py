"""`database-chaos` with Apache Kafka as the broker."""

from __future__ import annotations

import secrets

from bench.database_chaos import KILLS, OPERATIONS, run_with_broker
from bench.fleet import running_kafka
from livedex.pipeline.settings.settings import KAFKA_SCHEME


async def run(kills: int = KILLS, operations: int = OPERATIONS) -> None:
    """Print the table.

    Args:
        kills: how often sessions are ended.
        operations: edits.
    """
    with running_kafka() as bootstrap:
        settings = {
            "LIVEDEX_BROKER_URL": KAFKA_SCHEME + bootstrap,
            "LIVEDEX_KAFKA_PREFIX": f"bench-{secrets.token_hex(4)}.",
        }
        await run_with_broker(kills, operations, "Kafka", settings)
