"""Re-embed stored passages after a change of the embedding model, in the background of the embed
stage.

Invariants: a passage with a vector is never sent; passages that another process embeds are left to
it; one request slot stays free for new documents.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from livedex.pipeline.errors import (
    ClaimLostError,
    LivedexError,
    OutageError,
    RejectedError,
    RetryableError,
    TenantDeletedError,
)
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.runtime.backoff import EMBEDDING_BACKFILL
from livedex.pipeline.stages.embed import ActiveGenerationProvider
from livedex.pipeline.store.documents.generation_backlog import BacklogPosition, GenerationBacklog

log = logging.getLogger(__name__)

_DOCUMENTS, _PASSAGES, _PAGES = 32, 256, 4
_MAX_REJECTED = 10_000  # cached, so that rejected passages are not sent again

Passages = Sequence[tuple[PassageId, str]]


class AvailablePassageEmbedder(Protocol):
    """Embeds passages that no other process embeds."""

    async def embed_available(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Passages
    ) -> dict[PassageId, RejectedError]:
        """Embed the passages that no other process embeds.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts.

        Returns:
            an error for each passage that the model rejects.

        Raises:
            ClaimLostError: retry.
            OutageError: the provider or the store is unavailable.
        """
        ...


class EmbeddingBackfill:
    """Fills the active generation with the vectors of visible passages.

    Args:
        backlog: passages without a vector.
        generations: the active generation.
        embedder: embeds and stores.
        max_concurrent: concurrent requests, >= 1.
    """

    def __init__(
        self,
        backlog: GenerationBacklog,
        generations: ActiveGenerationProvider,
        embedder: AvailablePassageEmbedder,
        *,
        max_concurrent: int,
    ) -> None:
        self._backlog, self._generations, self._embedder = backlog, generations, embedder
        self._max_concurrent = max_concurrent
        self._checked: set[tuple[TenantId, GenerationId]] = set()
        self._places: dict[tuple[TenantId, GenerationId], BacklogPosition] = {}
        self._refused: dict[tuple[GenerationId, PassageId], str] = {}

    async def run(self) -> None:
        """Run until cancelled; wait through outages, and log and retry other errors."""
        idle = 0  # runs in a row without a finished document
        while True:
            try:
                done = await self.run_once()
                idle = 0 if done else idle + 1
                pause_s = EMBEDDING_BACKFILL.delay_s(idle) if idle else 0.0
            except RetryableError as exc:
                log.debug("the embedding backfill waits: %s", exc)
                idle += 1
                pause_s = EMBEDDING_BACKFILL.delay_s(idle)
                if isinstance(exc, OutageError) and exc.retry_after_s is not None:
                    pause_s = max(pause_s, min(exc.retry_after_s, 60.0))
            except Exception:
                pause_s = EMBEDDING_BACKFILL.max_s
                log.exception("the embedding backfill failed and continues in %.0f s", pause_s)
            await asyncio.sleep(pause_s)

    async def run_once(self) -> int:
        """Embed a bounded part of each tenant's backlog, newest changes first.

        Returns:
            the number of finished documents.

        Raises:
            OutageError: the provider or the store is unavailable.
        """
        generation_id = await self._generations.active()
        done = 0
        for tenant_id in await self._backlog.tenants():
            try:
                done += await self._fill_tenant(tenant_id, generation_id)
            except OutageError:
                raise
            except TenantDeletedError:
                continue
            except LivedexError as exc:
                log.warning("the embedding backfill of a tenant failed and is retried: %s", exc)
        return done

    async def _fill_tenant(self, tenant_id: TenantId, generation_id: GenerationId) -> int:
        key, done = (tenant_id, generation_id), 0
        if key not in self._checked:
            await self._backlog.recheck(tenant_id, generation_id)
            self._checked.add(key)
        for _ in range(_PAGES):
            page = await self._backlog.documents(
                tenant_id, generation_id, self._places.get(key, BacklogPosition()), _DOCUMENTS
            )
            if not page:
                self._places.pop(key, None)  # restart from the newest
                break
            documents = [each.doc_id for each in page]
            refused = await self._embed(tenant_id, generation_id, documents)
            self._places[key] = page[-1]
            done += len(await self._backlog.finish(tenant_id, generation_id, documents, refused))
        if done:
            log.info("%d more documents have the vectors of the embedding model in use", done)
        return done

    async def _embed(
        self, tenant_id: TenantId, generation_id: GenerationId, documents: Sequence[int]
    ) -> dict[PassageId, str]:
        """Embed the missing passages of documents; return the rejections."""
        refused: dict[PassageId, str] = {}
        after, most = 0, _PASSAGES * self._max_concurrent
        while lacking := await self._backlog.lacking(
            tenant_id, generation_id, documents, after, most
        ):
            after = lacking[-1][0]
            refused |= {
                p: why
                for p, _ in lacking
                if (why := self._refused.get((generation_id, p))) is not None
            }
            wanted = [(p, text) for p, text in lacking if p not in refused]
            parts = [wanted[at : at + _PASSAGES] for at in range(0, len(wanted), _PASSAGES)]
            for found in await asyncio.gather(
                *(self._embed_part(tenant_id, generation_id, part) for part in parts)
            ):
                for passage_id, error in found.items():
                    refused[passage_id] = str(error)
                    log.error(
                        "a stored passage has no vector of the present model and is found by "
                        "keywords only: %s",
                        error,
                    )
                    if len(self._refused) < _MAX_REJECTED:
                        self._refused[(generation_id, passage_id)] = str(error)
        return refused

    async def _embed_part(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Passages
    ) -> dict[PassageId, RejectedError]:
        with suppress(ClaimLostError):  # the next run finds the rest
            return await self._embedder.embed_available(tenant_id, generation_id, passages)
        return {}
