"""The role `maintain`: what keeps the index small and quick, apart from the stages.

Each job may run in several processes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from livedex.app.wiring import AppContext
from livedex.pipeline.errors import LivedexError
from livedex.pipeline.search.recall_monitor import maintain_recall
from livedex.pipeline.search.vector_retriever import MAX_EXACT_SCAN_PASSAGES
from livedex.pipeline.search.word_statistics import recount_words, refresh_word_statistics
from livedex.pipeline.store.cost_ledger import CostLedger
from livedex.pipeline.store.documents.document_fields import FieldSettings, index_outdated_fields
from livedex.pipeline.store.documents.keyword_rebuild import rewrite_outdated_passages
from livedex.pipeline.store.documents.vector_index import (
    enlarge_vector_index,
    maintain_vector_index,
)
from livedex.pipeline.store.postgres.statements import sql

log = logging.getLogger(__name__)

_UNDER_WAY_S = 3600.0  # a passage younger than this may belong to a document under way
_REMEMBERED_DAYS = 30.0  # a delivery that comes again later than that counts as another one
# content of a version that has ended is kept so long, for another event of an equal version
_LATE_HOURS = 1.0
_REWRITE_S = 15.0  # of rewriting words at a time, so that the other jobs have their turn


async def maintain(s: AppContext, stop: asyncio.Event) -> None:
    """Run the jobs, each at its interval, until `stop` is set."""
    jobs: list[tuple[float, Callable[[AppContext], Awaitable[None]]]] = [
        (5.0, index_fields),
        (5.0, count_words),
        (15.0, rewrite_words),
        (15.0, index_vectors),
        (60.0, measure_recall),
        (300.0, clear_contents),
        (3600.0, clear_unused),
        (3600.0, clear_limits),
        (3600.0, clear_deliveries),
        (3600.0, clear_notices),
        (3600.0, merge_costs),
    ]
    due = [time.monotonic() + min(interval, 60.0) for interval, _ in jobs]
    while not stop.is_set():
        for n, (interval, job) in enumerate(jobs):
            if time.monotonic() < due[n]:
                continue
            try:
                await job(s)
            except LivedexError as exc:
                log.warning("%s: %s; tried again later", job.__name__, exc)
            except Exception:
                log.exception(
                    "%s failed in a way that nobody foresaw; tried again later", job.__name__
                )
            due[n] = time.monotonic() + interval
        try:
            await asyncio.wait_for(stop.wait(), 1.0)
        except TimeoutError:
            continue


async def index_fields(s: AppContext) -> None:
    """Index titles, file names and headings of documents whose fields are outdated."""
    settings = FieldSettings(s.settings.text_search_config, s.settings.searched_metadata_keys)
    for tenant_id in await s.database.tenants():
        if count := await index_outdated_fields(s.database, tenant_id, settings):
            log.info("indexed the titles and headings of %d documents", count)


async def count_words(s: AppContext) -> None:
    """Refresh each tenant's counts of words, where enough has changed."""
    for tenant_id in await s.database.tenants():
        await refresh_word_statistics(s.database, tenant_id)


async def rewrite_words(s: AppContext) -> None:
    """Rewrite the words of passages that an older version of Livedex analyzed."""
    end = time.monotonic() + _REWRITE_S
    for tenant_id in await s.database.tenants():
        rewritten = 0
        while batch := await rewrite_outdated_passages(
            s.database, tenant_id, s.settings.text_search_config
        ):
            rewritten += batch
            if time.monotonic() > end:
                return
        if rewritten:
            await recount_words(s.database, tenant_id)
            log.info("the keyword index of a tenant is rebuilt: %d passages in the end", rewritten)


async def index_vectors(s: AppContext) -> None:
    """Build the vector index of the active generation once it pays."""
    if s.generations.generation_id is not None:
        await maintain_vector_index(
            s.owner_url, s.generations.generation_id, s.settings.vector_index_rows
        )


async def measure_recall(s: AppContext) -> None:
    """Hold the recall of the vector index for each tenant that it answers."""
    generation_id = s.generations.generation_id
    if generation_id is None:
        return
    found = {
        tenant_id: await maintain_recall(
            s.database, tenant_id, generation_id, MAX_EXACT_SCAN_PASSAGES
        )
        for tenant_id in await s.database.tenants()
    }
    measured = [each for each in found.values() if each is not None]
    if not measured:
        return
    s.metrics.vector_recall.set(min(each.recall for each in measured))
    if any(each.needs_larger_index for each in measured):
        await enlarge_vector_index(s.owner_url, generation_id)


async def clear_contents(s: AppContext) -> None:
    """Clear away large contents that no event names any more."""
    await s.blobs.clear_ended(_LATE_HOURS)


async def clear_unused(s: AppContext) -> None:
    """Clear away passages, vectors and tombstones that nothing has needed for long enough."""
    for tenant_id in await s.database.tenants():
        async with s.database.tenant(tenant_id, "clear unused passages") as connection:
            await connection.execute(sql("mark_unused"), tenant_id, _UNDER_WAY_S)
            await connection.execute(sql("unmark_used"), tenant_id)
            await connection.execute(sql("clear_claims"), tenant_id)
        async with s.database.tenant(tenant_id, "clear unused passages") as connection:
            await connection.execute(sql("clear_unused"), tenant_id, s.settings.keep_unused_days)
            await connection.execute(
                sql("clear_tombstones"), tenant_id, max(s.settings.keep_unused_days, 30.0)
            )


async def clear_limits(s: AppContext) -> None:
    """Forget the counts of credentials that have not asked for long."""
    async with s.database.system("clear limits") as connection:
        await connection.execute(sql("clear_limits"))
        await connection.execute(sql("clear_holders"))


async def clear_deliveries(s: AppContext) -> None:
    """Clear away what the webhook receiver needs to know no longer."""
    for tenant_id in await s.database.tenants():
        async with s.database.tenant(tenant_id, "clear deliveries") as connection:
            await connection.execute(sql("clear_issued_versions"), tenant_id, _REMEMBERED_DAYS)
            await connection.execute(sql("clear_deliveries"), tenant_id, _REMEMBERED_DAYS)


async def clear_notices(s: AppContext) -> None:
    """Clear away what subscribers did not read, or were not told, for too long."""
    for tenant_id in await s.database.tenants():
        async with s.database.tenant(tenant_id, "clear notices") as connection:
            await connection.execute(sql("clear_notices"), tenant_id)


async def merge_costs(s: AppContext) -> None:
    """Merge the rows of past days in the ledger of costs."""
    ledger = CostLedger(s.database)
    for tenant_id in await s.database.tenants():
        await ledger.merge_past_days(tenant_id)
