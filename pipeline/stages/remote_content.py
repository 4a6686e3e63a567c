"""Contents that stand at a URL, on their way through the chunk stage: fetched, or known to be what
is visible already.

A content that its server says is unchanged is not sent again: the pieces that are visible are those
of the new version too. This is believed only if they are exactly what was made of that content,
whatever happened in between; else it is fetched as if nothing were known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import orjson

from livedex.pipeline.errors import ContentNotFoundError, NoTextError, RejectedError
from livedex.pipeline.events.event import Changed, Event
from livedex.pipeline.model import Arrival, CacheValidator, DocumentId, Fence, TenantId
from livedex.pipeline.stages.listing import ChangeLister
from livedex.pipeline.store.protocol import CachedContent, Draft, DraftChunk, ExtractedMetadata

_REMEMBERED = frozenset({"synced", "empty"})
"""Outcomes that the same content has again; a format that cannot be read today may be one that can
tomorrow.
"""


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """What stood at a URL.

    Attributes:
        mime_type: as the other side says; None where it does not.
        name: a file name by its URL, for the format.
        validator: what it is recognised by; None: it cannot be.
    """

    content: bytes
    mime_type: str | None = None
    name: str = ""
    validator: CacheValidator | None = None


class ContentFetcher(Protocol):
    """Gets contents by their URL."""

    def fetch(
        self, tenant_id: TenantId, source: str, url: str, validator: CacheValidator | None = None
    ) -> AbstractAsyncContextManager[FetchedContent | None]:
        """Get it, and hold its room in memory for as long as the block lasts. None: it is what the
        validator is of.

        Args:
            source: of the document, which says what may be reached and with which credentials; ''
                for what came by an API key.

        Raises:
            ContentNotFoundError: nothing stands there, or not for us.
            RetryableError: not now; never an OutageError, since other documents stand elsewhere.
            UnexpectedResponseError: what was answered is no content, or it is not given to us.
            NoTextError: `too_large`.
            RejectedError: never: it may not be reached.
        """
        ...

    async def answer(self, tenant_id: TenantId, source: str, url: str) -> Any:
        """What the API of a source answers to a question about what changed, as JSON.

        Raises:
            ContentNotFoundError, RetryableError: as `fetch`.
            UnexpectedResponseError: it is not for us, or no JSON.
            RejectedError: it is too large.
        """
        ...

    def rights(self, tenant_id: TenantId, source: str) -> str:
        """Names with which rights and in which way a source's contents are got, without giving
        away any: other rights may see other contents.
        """
        ...

    def objection(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        """Why a URL is never fetched, as far as that can be told without asking anybody; None:
        nothing is wrong with it.
        """
        ...


class ContentCache(Protocol):
    """Remembers what contents are recognised by.

    Every method may raise OutageError and RetryableError.
    """

    async def is_ended(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, arrival: Arrival
    ) -> bool:
        """Whether a version is the visible one, or a newer one is known, or it arrived before a
        delete without a version.
        """
        ...

    async def recall(
        self, tenant_id: TenantId, document_id: DocumentId, basis: bytes
    ) -> CachedContent | None:
        """What is known of the content that the visible version was made of on this basis."""
        ...

    async def remember(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        basis: bytes,
        known: CachedContent,
    ) -> None:
        """Keep what is known of the content that a version is made of."""
        ...

    async def visible_pieces(
        self, tenant_id: TenantId, document_id: DocumentId
    ) -> Sequence[DraftChunk]:
        """The pieces of the visible version, in order."""
        ...


DraftBuilder: TypeAlias = Callable[[FetchedContent], Awaitable[tuple[Draft, ExtractedMetadata]]]
"""Makes a draft of a content, and finds what it says of itself."""


@dataclass(frozen=True, slots=True)
class RemoteDraft:
    """What was made of a content at a URL.

    Attributes:
        basis: everything that decided it but the content.
        known: what the content is recognised by; None: it cannot be.
    """

    draft: Draft
    basis: bytes = b""
    known: CachedContent | None = None


class RemoteContent:
    """Drafts of contents that stand at URLs. Every method may raise what `Fetcher` and `Memory` do.

    Args:
        lister: looks up changes that were not told; None: nobody does.
    """

    def __init__(
        self, fetcher: ContentFetcher, memory: ContentCache, lister: ChangeLister | None = None
    ) -> None:
        self._fetcher, self._memory, self._lister = fetcher, memory, lister

    async def follow(self, event: Event[Changed]) -> None:
        """Look up what changed; see `Lister.follow`."""
        if self._lister is None:
            raise RejectedError(
                "changes are not looked up here: send each document", reason="not_listed"
            )
        await self._lister.follow(event)

    async def is_ended(self, base: Draft) -> bool:
        """Whether nobody needs to be asked for a version, since it has ended or a newer one is
        known.
        """
        return await self._memory.is_ended(
            base.tenant_id, base.document_id, base.fence, base.arrived
        )

    async def draft(self, event: Event[Changed], base: Draft, cut: DraftBuilder) -> RemoteDraft:
        """The draft of a version whose content stands at a URL, or of its delete, where it stands
        there no more.

        Args:
            base: without anything that comes of the content.
        """
        try:
            return await self._draft(event, base, cut)
        except ContentNotFoundError:
            if not event.data.gone_if_missing or not await self._was_there(event):
                raise
            return RemoteDraft(replace(base, outcome="deleted"))

    async def _was_there(self, event: Event[Changed]) -> bool:
        """Whether who finds nothing would find something, were it there: the place at which the
        content was announced is shown to us, too.
        """
        data = event.data
        if data.seen_at is None:
            return True
        try:
            async with self._fetcher.fetch(event.tenant_id, data.source, data.seen_at):
                return True
        except NoTextError:
            return True  # too large to be read, and there
        except ContentNotFoundError:
            return False

    async def _draft(self, event: Event[Changed], base: Draft, cut: DraftBuilder) -> RemoteDraft:
        basis = self._basis(event, base.cut)
        known = await self._memory.recall(base.tenant_id, base.document_id, basis)
        found = None if known is None else await self._fetched(event, base, basis, cut, known)
        if found is None:
            found = await self._fetched(event, base, basis, cut, None)
        assert found is not None
        return found

    async def remember(self, found: RemoteDraft) -> None:
        """Keep what a content is recognised by, once its draft is kept."""
        draft = found.draft
        if found.known is not None:
            await self._memory.remember(
                draft.tenant_id, draft.document_id, draft.fence, found.basis, found.known
            )

    async def _fetched(
        self,
        event: Event[Changed],
        base: Draft,
        basis: bytes,
        cut: DraftBuilder,
        known: CachedContent | None,
    ) -> RemoteDraft | None:
        """What was made; None where nothing changed since what is known, and what is visible is
        not that.
        """
        assert event.data.url is not None
        validator = None if known is None else known.validator
        async with self._fetcher.fetch(
            base.tenant_id, event.data.source, event.data.url, validator
        ) as found:
            if found is not None:
                draft, own = await cut(found)
                return RemoteDraft(draft, basis, _known(found, draft, own))
        assert known is not None
        pieces = await self._memory.visible_pieces(base.tenant_id, base.document_id)
        return (
            RemoteDraft(_as_before(base, known, pieces), basis, known)
            if pieces_digest(pieces) == known.chunks_digest
            else None
        )

    def _basis(self, event: Event[Changed], cut: str) -> bytes:
        """Everything that decides what a version is made of but the content itself."""
        data = event.data
        parts = [
            data.url,
            data.source,
            self._fetcher.rights(event.tenant_id, data.source),
            data.name,
            data.mime_type,
            cut,
        ]
        return hashlib.sha256(orjson.dumps(parts)).digest()


def pieces_digest(pieces: Sequence[DraftChunk]) -> bytes:
    """Names the pieces of a document: their texts, places and headings."""
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece.hash + orjson.dumps([piece.gap, piece.heading]))
    return found.digest()


def with_extracted_metadata(draft: Draft, own: ExtractedMetadata) -> Draft:
    """A draft with what its content says of itself."""
    before = draft.attributes
    attributes = replace(
        before,
        title=before.title or own.title,
        mime_type=before.mime_type or own.mime_type,
        metadata={**before.metadata, **own.metadata},
    )
    return replace(draft, attributes=attributes)


def _known(found: FetchedContent, draft: Draft, own: ExtractedMetadata) -> CachedContent | None:
    if found.validator is None or draft.outcome not in _REMEMBERED:
        return None
    return CachedContent(
        found.validator, pieces_digest(draft.pieces), draft.outcome, draft.error, own
    )


def _as_before(base: Draft, known: CachedContent, pieces: Sequence[DraftChunk]) -> Draft:
    return with_extracted_metadata(
        replace(base, outcome=known.outcome, pieces=pieces, error=known.error), known.own
    )
