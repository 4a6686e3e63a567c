"""Rebuilds the keyword entries of passages that an older version of the analyzer wrote.

Each batch is one transaction, so an interrupted rebuild resumes where it stopped, and several
processes share the work. Texts and vectors stay unchanged: nothing is embedded.
"""

from __future__ import annotations

from livedex.pipeline.model import TenantId
from livedex.pipeline.runtime.tenant_shares import in_thread
from livedex.pipeline.store.database import Database
from livedex.pipeline.store.keyword_analyzer import ANALYZER_VERSION, AnalyzedText, analyze_text
from livedex.pipeline.store.postgres.statements import sql

BATCH_PASSAGES = 200


async def rewrite_outdated_passages(database: Database, tenant_id: TenantId, config: str) -> int:
    """Analyze a batch of outdated passages again.

    Args:
        database: connected as the application's role.
        tenant_id: owner of the passages.
        config: PostgreSQL text search configuration of the keyword index.

    Returns:
        The number of rewritten passages; 0: none is outdated, or another process rewrites the last
        ones.
    """
    async with database.tenant(tenant_id, "rewrite words", durable=False) as connection:
        rows = await connection.fetch(
            sql("outdated_passages"), tenant_id, ANALYZER_VERSION, BATCH_PASSAGES
        )
        if not rows:
            return 0

        def analyze() -> list[AnalyzedText]:
            return [analyze_text(row["content"], config) for row in rows]

        found = await in_thread(analyze)
        await connection.execute(
            sql("rewrite_words"),
            tenant_id,
            [row["passage_id"] for row in rows],
            [each.words for each in found],
            ["\x1f".join(each.exact) for each in found],
            [each.spellings for each in found],
            config,
            ANALYZER_VERSION,
        )
    return len(rows)
