"""Mending what a proof has found: rows from what they stand for, documents from their files,
vectors from the model.
"""

from __future__ import annotations

import time
from typing import get_args

from livedex.app.broker import open_broker
from livedex.app.catch_up import wait_for_catch_up
from livedex.app.process import is_running
from livedex.app.source_removal import remove_source
from livedex.app.verify.checks import Kind, TenantVerification, Verification
from livedex.app.watch_role import make_connector
from livedex.app.webhook_role import check_fetch_credentials
from livedex.app.wiring import AppContext
from livedex.consumers.embed import open_passage_embedder
from livedex.consumers.embedding_backfill import EmbeddingBackfill
from livedex.consumers.lost_records import RecordRecovery
from livedex.pipeline.flow import StageName
from livedex.pipeline.ingest.ingester import Ingester
from livedex.pipeline.model import DocumentId, PassageId, TenantId
from livedex.pipeline.store.documents.generation_backlog import GenerationBacklog
from livedex.pipeline.store.source_store import SourceStore

_LOOK_S, _IDLE_LOOKS = 5.0, 2
REPUBLISHED_KINDS: frozenset[Kind] = frozenset(
    {"missing", "stale", "under_way", "dead", "attributes", "chunks", "passage"}
)
"""Differences that are mended by publishing the file again."""


async def repair_index(s: AppContext, proof: Verification, *, timeout_s: float) -> None:
    """Mend what can be; another proof shows what could not.

    Documents without a file (sent by API) keep what is wrong with their text: only whoever sent
    them has it.

    Args:
        s: the context of the process.
        proof: what differs.
        timeout_s: for the stages to make documents anew; those of a running `livedex up`, else in
            this process.

    Raises:
        OutageError, RetryableError: the database, or the embedder where vectors are missing, is
        away.
        ConfigError: the stages would run here, and a token of a source is not set.
    """
    stages: tuple[StageName, ...] = () if is_running(s.data) else get_args(StageName)
    if stages:
        check_fetch_credentials(s.settings)
    for tenant in proof.tenants.values():
        await _repair_rows(s, tenant)
    # what lacks vectors is embedded below
    async with open_broker(s, stages, fills=False) as running:
        for tenant_id, source in sorted(proof.orphaned):
            await remove_source(SourceStore(s.database), running.intake, tenant_id, source)
        await RecordRecovery(s.database, s.operations, running.broker).republish(older_than_s=0)
        await _publish_again(s, proof, running.intake, timeout_s)
        await _embed(s, proof)


async def _repair_rows(s: AppContext, tenant: TenantVerification) -> None:
    inspection, generation = tenant.inspection, s.generations.generation_id
    right = [content for _, content in await inspection.contents(sorted(tenant.unindexed))]
    await inspection.rewrite_passages([*right, *tenant.originals])
    if generation is not None and tenant.malformed:
        await inspection.delete_vectors(sorted(tenant.malformed), generation)
    await inspection.delete_orphan_chunks()
    await inspection.recount_chunks(
        sorted(
            {
                d.document_id
                for d in tenant.differences
                if d.kind == "chunks" and d.document_id is not None
            }
        )
    )


async def _publish_again(
    s: AppContext, proof: Verification, intake: Ingester, timeout_s: float
) -> None:
    """Let the connectors publish what differs, and the stages work it off."""
    for folder in proof.folders:
        tenant = proof.tenants[folder.tenant_id]
        await tenant.inspection.reset_files(folder.source.name, _documents_to_publish(tenant))
        await make_connector(s, folder.source, intake).reconcile(repair=True)
    await _wait(s, timeout_s)


async def _wait(s: AppContext, timeout_s: float) -> None:
    """Wait until everything has ended, or nothing more comes of it: a document may be under way
    whose record is lost and whose content nobody has.
    """
    end, idle = time.monotonic() + timeout_s, 0
    while time.monotonic() < end and idle < _IDLE_LOOKS:
        ended = await wait_for_catch_up(
            s.operations, s.backlog, deadline=min(end, time.monotonic() + _LOOK_S), scan=False
        )
        if ended.all:
            return
        idle = (
            0 if any(stage.waiting for stage in (await s.backlog.waiting()).values()) else idle + 1
        )


def _documents_to_publish(tenant: TenantVerification) -> list[DocumentId]:
    return sorted(
        {
            d.document_id
            for d in tenant.differences
            if d.kind in REPUBLISHED_KINDS and d.document_id is not None
        }
    )


async def _embed(s: AppContext, proof: Verification) -> None:
    """Make vectors for visible passages that have none."""
    lacking: dict[TenantId, list[tuple[PassageId, str]]] = {}
    for tenant_id, tenant in proof.tenants.items():
        passages = await tenant.inspection.contents(sorted(tenant.bare | tenant.malformed))
        if passages:
            generation = await s.generations.active()
            there = await tenant.inspection.vectors(
                [passage for passage, _ in passages], generation, s.generations.dimensions or 0
            )
            lacking[tenant_id] = [
                (passage, content) for passage, content in passages if passage not in there
            ]
    if not any(lacking.values()):
        return
    generation = await s.generations.active()
    async with open_passage_embedder(s.store, s.embeddings, s.claims) as gatherer:
        for tenant_id, passages in lacking.items():
            await gatherer.embed(tenant_id, generation, passages)
        filler = EmbeddingBackfill(
            GenerationBacklog(s.database), s.generations, gatherer, max_concurrent=1
        )
        while await filler.run_once():  # their documents know it
            continue
