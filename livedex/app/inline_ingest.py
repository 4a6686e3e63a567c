"""One version of a document from its content until it is visible, worked on by one process in one
go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import TypeAlias

from livedex.app.wiring import AppContext
from livedex.pipeline.costs.charges import VersionAccount
from livedex.pipeline.embedding.embedder import Vector
from livedex.pipeline.embedding.service import EmbeddingService
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import DocumentId, Fence, GenerationId, PassageId, TenantId
from livedex.pipeline.stages.embed import PassageEmbedder
from livedex.pipeline.stages.passage_embedder import PassageRejectedError
from livedex.pipeline.store.drafts import Draft, MissingVectors, PreparedVersion, SyncResult

_Found: TypeAlias = dict[str, Vector | RejectedError]


class InlineIngest:
    """A version that nobody else works on, so its content and its manifest are here and not in the
    database. Where the model runs in this process,
    its vectors are, too: nobody was paid for them. They are made while its passages are being kept.

    Close it at the end, however that was.

    Args:
        gatherer: embeds where the model runs elsewhere.

    Attributes:
        embedded: passages that were sent to the embedder.
    """

    def __init__(self, surroundings: AppContext, content: bytes, gatherer: PassageEmbedder) -> None:
        self._store, self._generations = surroundings.store, surroundings.generations
        self._content, self._gatherer = content, gatherer
        self.embedded = 0
        self._early = (
            PrefetchedVectors(surroundings.embeddings)
            if surroundings.embeddings.in_process
            else None
        )
        self._prepared: PreparedVersion | None = None
        self._vectors: dict[PassageId, Vector] = {}
        self._account: VersionAccount | None = None

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, version: int, sha256: str
    ) -> bytes:
        """See `livedex.pipeline.store.protocol.Contents`."""
        return self._content

    async def store_draft(self, draft: Draft) -> int | None:
        """See `livedex.pipeline.stages.chunk.DraftStore`."""
        await self._prepare(draft, await self._generations.active())
        return None if self._prepared is None else self._prepared.new

    async def missing_vectors(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        generation_id: GenerationId,
    ) -> MissingVectors | None:
        """See `livedex.pipeline.stages.embed.MissingVectorLookup`."""
        # another one has become active meanwhile
        if self._prepared is not None and self._prepared.generation_id != generation_id:
            await self._prepare(self._prepared.draft, generation_id)
        return None if self._prepared is None else self._prepared.missing

    async def _prepare(self, draft: Draft, generation_id: GenerationId) -> None:
        self._prepared = await self._store.prepare(
            draft, generation_id, None if self._early is None else self._early.begin
        )

    async def embed(
        self,
        tenant_id: TenantId,
        generation_id: GenerationId,
        passages: Sequence[tuple[PassageId, str]],
        *,
        account: VersionAccount | None = None,
    ) -> list[RejectedError]:
        """See `livedex.pipeline.stages.embed.PassageEmbedder`; the vectors of a model in this
        process get into the store with the version.
        """
        self.embedded += len(passages)
        if self._early is None:
            if self._account is None and self._prepared is not None:  # it has no manifest row
                draft = self._prepared.draft
                self._account = VersionAccount(
                    draft.document_id, draft.fence, draft.attributes.source
                )
            return await self._gatherer.embed(
                tenant_id, generation_id, passages, account=self._account
            )
        refused = list[RejectedError]()
        found = await self._early.of([text for _, text in passages])
        for passage_id, text in passages:
            answer = found[text]
            if isinstance(answer, RejectedError):
                refused.append(PassageRejectedError(passage_id, answer))
            else:
                self._vectors[passage_id] = answer
        return refused

    async def sync(self) -> SyncResult:
        """Make it the visible one."""
        return (
            SyncResult(current=False)
            if self._prepared is None
            else await self._store.sync_prepared(
                self._prepared,
                self._vectors,
                None if self._account is None else self._account.embedded,
            )
        )

    def close(self) -> None:
        """Let go of what nobody waits for any more."""
        if self._early is not None:
            self._early.close()


class PrefetchedVectors:
    """Vectors of texts, begun before anybody waits for them."""

    def __init__(self, embeddings: EmbeddingService) -> None:
        self._embeddings = embeddings
        self._work: asyncio.Task[_Found] | None = None

    def begin(self, texts: Sequence[str]) -> None:
        """Embed texts in the background, instead of those that were begun before."""
        self.close()
        self._work = asyncio.create_task(self._embed(texts))

    async def of(self, texts: Sequence[str]) -> _Found:
        """The vector of each text, or why the model never takes it.

        Raises:
            OutageError, RetryableError: as the embedder does.
        """
        found: _Found = {}
        if self._work is not None:
            found = await self._work
        left = [text for text in texts if text not in found]
        return {**found, **await self._embed(left)} if left else found

    def close(self) -> None:
        """End what is under way."""
        if self._work is not None and not self._work.cancel() and not self._work.cancelled():
            self._work.exception()  # told to whoever waited, where anybody did

    async def _embed(self, texts: Sequence[str]) -> _Found:
        found: _Found = {}
        async with aclosing(self._embeddings.embed_documents(texts)) as answers:
            async for answer in answers:
                found.update((texts[index], vector) for index, vector in answer)
        return found
