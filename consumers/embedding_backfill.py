"""After a change of the embedding model: what is stored is embedded again from its passages, in the
background of the embed stage.

Invariants: a passage that has a vector is never sent; what another process embeds now is left to
it; new documents need not wait, since one of the provider's slots is left to them.
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
_MOST_REFUSED = 10_000  # remembered, so that they are not sent again and again

Passages = Sequence[tuple[PassageId, str]]


class AvailablePassageEmbedder(Protocol):
    """Embeds what nobody else embeds now."""

    async def embed_available(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Passages
    ) -> dict[PassageId, RejectedError]:
        """Embed passages, but for those that another process embeds.

        Returns:
            Why the model refuses some of them.

        Raises:
            ClaimLostError: ask again.
            OutageError: the provider, or the store, is away.
        """
        ...


class EmbeddingBackfill:
    """Brings the active generation up to what is visible.

    Args:
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
        """Work until cancelled; an outage is waited for, and any other error is logged and tried
        again.
        """
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
        """Embed a part of what each tenant lacks, the newest changes first; a tenant with much is
        no reason for another to wait.

        Returns:
            How many documents were finished.

        Raises:
            OutageError: the provider, or the store, is away.
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
                log.warning(
                    "what a tenant has stored is not embedded yet, and is tried again: %s", exc
                )
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
                self._places.pop(key, None)  # from the newest on, the next time
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
        """Embed what documents lack; why some of it is refused."""
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
                        "a stored passage has no vector of the model in use, and is found by "
                        "its words alone: %s",
                        error,
                    )
                    if len(self._refused) < _MOST_REFUSED:
                        self._refused[(generation_id, passage_id)] = str(error)
        return refused

    async def _embed_part(
        self, tenant_id: TenantId, generation_id: GenerationId, passages: Passages
    ) -> dict[PassageId, RejectedError]:
        with suppress(ClaimLostError):  # what is left of them is found again
            return await self._embedder.embed_available(tenant_id, generation_id, passages)
        return {}
