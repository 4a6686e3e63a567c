"""Embed passages that no other process embeds, by claims in the database."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from livedex.pipeline.costs.charges import VersionAccount
from livedex.pipeline.errors import ClaimLostError, LivedexError, RejectedError
from livedex.pipeline.model import GenerationId, PassageId, TenantId
from livedex.pipeline.runtime.backoff import CLAIM_POLL
from livedex.pipeline.runtime.micro_batch import MicroBatcher
from livedex.pipeline.stages.embed import PassageEmbedder
from livedex.pipeline.stages.passage_embedder import PassageKey, PassageRejectedError
from livedex.pipeline.store.embedding_claims import ClaimResult, EmbeddingClaims

log = logging.getLogger(__name__)

_ClaimRequest: TypeAlias = tuple[TenantId, GenerationId, tuple[PassageId, ...]]


class ClaimedPassageEmbedder:
    """Claims passages before it embeds them, and waits for passages that others have claimed.

    Args:
        embedder: embeds the claimed passages; a passage that several callers request is embedded
            once.
        claims: of this process.
    """

    def __init__(self, embedder: PassageEmbedder, claims: EmbeddingClaims) -> None:
        self._embedder = embedder
        self._claims = claims
        self._requests: Counter[PassageKey] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._claim: MicroBatcher[_ClaimRequest, ClaimResult] = MicroBatcher(
            self._claim_batch, group=lambda request: request[:2]
        )
        self._release: MicroBatcher[_ClaimRequest, None] = MicroBatcher(
            self._release_batch, group=lambda request: request[:2]
        )

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        *,
        account: VersionAccount | None = None,
    ) -> list[RejectedError]:
        """Embed passages; return once each is stored, by this process or another.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts.
            account: the version that they are embedded for.

        Returns:
            an error for each passage that the model rejects.
        """
        pending, rejected, polls = dict(passages), list[RejectedError](), 0
        while pending:
            try:
                result, found = await self._embed_claimable(
                    tenant_id, generation_id, pending, account
                )
            except ClaimLostError:
                # the process was suspended, and others may have embedded the passages: claim again
                continue
            rejected += found
            done = result.claimed | result.already_embedded
            pending = {passage: text for passage, text in pending.items() if passage not in done}
            if pending:
                polls += 1
                await asyncio.sleep(CLAIM_POLL.delay_s(polls))
        return rejected

    async def embed_available(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
    ) -> dict[PassageId, RejectedError]:
        """Embed the passages that no other process has claimed.

        Args:
            tenant_id: of the passages.
            generation_id: of the vectors.
            passages: ids and texts.

        Returns:
            an error for each passage that the model rejects.
        """
        _, rejected = await self._embed_claimable(tenant_id, generation_id, dict(passages))
        return {
            error.passage_id: error for error in rejected if isinstance(error, PassageRejectedError)
        }

    async def drain(self) -> None:
        """Wait for passages in flight and release their claims."""
        while self._tasks:  # each may start the task that releases its claims
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _embed_claimable(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        texts: Mapping[PassageId, str],
        account: VersionAccount | None = None,
    ) -> tuple[ClaimResult, list[RejectedError]]:
        """Embed passages that no other process has claimed; return the claims and the rejections.

        A cancelled caller does not cancel the request in flight, which keeps its claims.
        """
        task = asyncio.create_task(
            self._claim_and_embed(tenant_id, generation_id, dict(texts), account)
        )
        self._track(task)
        return await asyncio.shield(task)

    async def _claim_and_embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        texts: Mapping[PassageId, str],
        account: VersionAccount | None,
    ) -> tuple[ClaimResult, list[RejectedError]]:
        """Claim passages, embed those that were claimed, then release them.

        Never cancelled: a claim that is not released makes other processes wait.
        """
        keys = [(tenant_id, generation_id, passage) for passage in texts]
        # counted before the claim: from now on no other request of this process releases them
        self._requests.update(keys)
        to_release: Collection[PassageId] = texts  # if the claim fails, what it claimed is unknown
        try:
            result = await self._claim((tenant_id, generation_id, tuple(texts)))
            to_release = result.claimed | result.already_embedded
            ours = [(passage, text) for passage, text in texts.items() if passage in result.claimed]
            if not ours:
                return result, []
            return result, await self._embedder.embed(
                tenant_id, generation_id, ours, account=account
            )
        finally:
            self._requests.subtract(keys)
            unused = [key for key in keys if self._requests[key] <= 0]
            for key in unused:
                del self._requests[key]
            done = tuple(passage for _, _, passage in unused if passage in to_release)
            if done:  # in the background: no caller waits for it
                self._track(
                    asyncio.create_task(self._release_or_abandon((tenant_id, generation_id, done)))
                )

    async def _release_or_abandon(self, request: _ClaimRequest) -> None:
        try:
            await self._release(request)
        except LivedexError as exc:
            log.warning(
                "claims on embedded passages cannot be released; all claims of this process are "
                "abandoned and expire: %s",
                exc,
            )
            self._claims.abandon()  # otherwise others would wait as long as this process lives

    async def _claim_batch(self, requests: Sequence[_ClaimRequest]) -> list[ClaimResult]:
        tenant_id, generation_id, _ = requests[0]
        result = await self._claims.take(
            tenant_id,
            generation_id,
            list({passage for request in requests for passage in request[2]}),
        )
        return [result] * len(requests)

    async def _release_batch(self, requests: Sequence[_ClaimRequest]) -> list[None]:
        tenant_id, generation_id, _ = requests[0]
        # a passage that was requested again since then is released by that request
        done = {
            passage
            for request in requests
            for passage in request[2]
            if not self._requests[(tenant_id, generation_id, passage)]
        }
        await self._claims.release(tenant_id, generation_id, done)
        return [None] * len(requests)

    def _track(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a waiting caller gets it; without one it is marked as retrieved
