"""Build drafts of content at URLs: fetched, or unchanged since the visible version.

Content that its server reports as unchanged is not fetched again: the visible chunks are the chunks
of the new version too. This holds only if the visible chunks are exactly those that were made of
that content; otherwise it is fetched without a validator.
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
from livedex.pipeline.store.drafts import CachedContent, Draft, DraftChunk, ExtractedMetadata

_CACHED_OUTCOMES = frozenset({"synced", "empty"})
"""Outcomes that depend on the content alone; a format that is unsupported today may be supported
tomorrow.
"""


class ChangeLister(Protocol):
    """Lists changes by a source's API, for events that announce changes without naming all."""

    async def list_changes(self, event: Event[Changed]) -> None:
        """Ingest every change that an event announces; repetition does no harm.

        Args:
            event: its content says what to list.

        Raises:
            RetryableError: the API is unavailable now.
            RejectedError: the changes cannot be listed; the message says what to do.
        """
        ...


@dataclass(frozen=True, slots=True)
class FetchedContent:
    """A response with the content of a document.

    Attributes:
        content: the body.
        mime_type: of the response; None without one.
        name: a file name from the URL, for the format.
        validator: for conditional requests; None: the server gave none.
    """

    content: bytes
    mime_type: str | None = None
    name: str = ""
    validator: CacheValidator | None = None


class ContentFetcher(Protocol):
    """Fetches content by URL, with the access rights of a source.

    In all methods, `source` is the document's source, which decides about credentials and
    reachable hosts; '' for documents that came with an API key.
    """

    def fetch(
        self, tenant_id: TenantId, source: str, url: str, validator: CacheValidator | None = None
    ) -> AbstractAsyncContextManager[FetchedContent | None]:
        """Fetch content; the block holds its share of memory. None: unchanged since the validator.

        Args:
            tenant_id: of the document.
            source: of the document.
            url: of the content.
            validator: of the last response.

        Raises:
            ContentNotFoundError: no content at the URL, or none that these rights may see.
            RetryableError: not now; never an OutageError, since other servers are independent.
            UnexpectedResponseError: the response is not the document, or access is denied.
            NoTextError: `too_large`.
            RejectedError: the URL is not allowed.
        """
        ...

    async def fetch_json(self, tenant_id: TenantId, source: str, url: str) -> Any:
        """Fetch a JSON response of a source's API.

        Args:
            tenant_id: of the source.
            source: its name.
            url: of the API.

        Raises:
            ContentNotFoundError: as `fetch`.
            RetryableError: as `fetch`.
            UnexpectedResponseError: access is denied, or the response is not JSON.
            RejectedError: the response is too large.
        """
        ...

    def access_fingerprint(self, tenant_id: TenantId, source: str) -> str:
        """Return a digest of the access rights of a source, without secrets: other rights may see
        other content.

        Args:
            tenant_id: of the source.
            source: its name.
        """
        ...

    def refusal_reason(self, tenant_id: TenantId, source: str, url: str) -> str | None:
        """Return why a URL is never fetched, as far as its text tells; None if it may be.

        Args:
            tenant_id: of the source.
            source: its name.
            url: of a content.
        """
        ...


class ContentCache(Protocol):
    """Stores validators of fetched content.

    Every method may raise OutageError and RetryableError.
    """

    async def is_superseded(
        self, tenant_id: TenantId, document_id: DocumentId, fence: Fence, arrival: Arrival
    ) -> bool:
        """Return whether a version needs no content: it is visible, a newer one is known, or it
        arrived before a delete without a version.
        """
        ...

    async def get(
        self, tenant_id: TenantId, document_id: DocumentId, basis: bytes
    ) -> CachedContent | None:
        """Return the validator and metadata of the visible version, if it has the same basis."""
        ...

    async def put(
        self,
        tenant_id: TenantId,
        document_id: DocumentId,
        fence: Fence,
        basis: bytes,
        known: CachedContent,
    ) -> None:
        """Store the validator and metadata of a version."""
        ...

    async def visible_pieces(
        self, tenant_id: TenantId, document_id: DocumentId
    ) -> Sequence[DraftChunk]:
        """Return the chunks of the visible version, in order."""
        ...


DraftBuilder: TypeAlias = Callable[[FetchedContent], Awaitable[tuple[Draft, ExtractedMetadata]]]
"""Builds the draft of a content, and extracts its metadata."""


@dataclass(frozen=True, slots=True)
class RemoteDraft:
    """The draft of a content at a URL.

    Attributes:
        draft: of the version.
        basis: digest of everything but the content that the draft depends on.
        known: validator and metadata to cache; None: nothing to cache.
    """

    draft: Draft
    basis: bytes = b""
    known: CachedContent | None = None


class RemoteContent:
    """Builds drafts of content at URLs. Every method may raise the errors of its parts.

    Args:
        fetcher: fetches content.
        content_cache: of validators.
        lister: lists changes; None: events that need it are rejected.
    """

    def __init__(
        self,
        fetcher: ContentFetcher,
        content_cache: ContentCache,
        lister: ChangeLister | None = None,
    ) -> None:
        self._fetcher, self._cache, self._lister = fetcher, content_cache, lister

    async def list_changes(self, event: Event[Changed]) -> None:
        """Ingest every change that an event announces.

        Args:
            event: its content says what to list.

        Raises:
            RejectedError: no lister, or the changes cannot be listed.
        """
        if self._lister is None:
            raise RejectedError(
                "changes are not looked up here: send each document", reason="not_listed"
            )
        await self._lister.list_changes(event)

    async def is_superseded(self, base: Draft) -> bool:
        """Return whether a version needs no content.

        Args:
            base: its draft.
        """
        return await self._cache.is_superseded(
            base.tenant_id, base.document_id, base.fence, base.arrived
        )

    async def draft(self, event: Event[Changed], base: Draft, build: DraftBuilder) -> RemoteDraft:
        """Return the draft of a version with content at a URL; a delete if the content is deleted
        there and the event allows this conclusion.

        Args:
            event: of the version.
            base: the draft without content.
            build: builds the draft of fetched content.

        Raises:
            ContentNotFoundError: no content at the URL.
        """
        try:
            return await self._draft(event, base, build)
        except ContentNotFoundError:
            if not event.data.gone_if_missing or not await self._can_see_container(event):
                raise
            return RemoteDraft(replace(base, outcome="deleted"))

    async def cache(self, found: RemoteDraft) -> None:
        """Store the validator of a content, once its draft is stored.

        Args:
            found: the draft.
        """
        draft = found.draft
        if found.known is not None:
            await self._cache.put(
                draft.tenant_id, draft.document_id, draft.fence, found.basis, found.known
            )

    async def _can_see_container(self, event: Event[Changed]) -> bool:
        """Return whether these rights can still see the container in which the content was
        announced: only then does a missing content mean a delete.
        """
        data = event.data
        if data.seen_at is None:
            return True
        try:
            async with self._fetcher.fetch(event.tenant_id, data.source, data.seen_at):
                return True
        except NoTextError:
            return True  # it exists, and is too large
        except ContentNotFoundError:
            return False

    async def _draft(self, event: Event[Changed], base: Draft, build: DraftBuilder) -> RemoteDraft:
        basis = self._basis(event, base.cut)
        known = await self._cache.get(base.tenant_id, base.document_id, basis)
        found = None if known is None else await self._fetch(event, base, basis, build, known)
        if found is None:
            found = await self._fetch(event, base, basis, build, None)
        assert found is not None
        return found

    async def _fetch(
        self,
        event: Event[Changed],
        base: Draft,
        basis: bytes,
        build: DraftBuilder,
        known: CachedContent | None,
    ) -> RemoteDraft | None:
        """Return the draft; None if the content is unchanged since `known`, and the visible chunks
        are not those of `known`.
        """
        assert event.data.url is not None
        validator = None if known is None else known.validator
        async with self._fetcher.fetch(
            base.tenant_id, event.data.source, event.data.url, validator
        ) as found:
            if found is not None:
                draft, metadata = await build(found)
                return RemoteDraft(draft, basis, _cacheable(found, draft, metadata))
        assert known is not None
        pieces = await self._cache.visible_pieces(base.tenant_id, base.document_id)
        if pieces_digest(pieces) != known.chunks_digest:
            return None
        return RemoteDraft(_unchanged_draft(base, known, pieces), basis, known)

    def _basis(self, event: Event[Changed], chunker_config: str) -> bytes:
        """Return a digest of everything but the content that a version depends on."""
        data = event.data
        parts = [
            data.url,
            data.source,
            self._fetcher.access_fingerprint(event.tenant_id, data.source),
            data.name,
            data.mime_type,
            chunker_config,
        ]
        return hashlib.sha256(orjson.dumps(parts)).digest()


def pieces_digest(pieces: Sequence[DraftChunk]) -> bytes:
    """Return a digest of the chunks of a document: their texts, positions and headings.

    Args:
        pieces: the chunks, in order.
    """
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece.hash + orjson.dumps([piece.gap, piece.heading]))
    return digest.digest()


def with_extracted_metadata(draft: Draft, extracted: ExtractedMetadata) -> Draft:
    """Return a draft with the metadata of its content; the sender's title and type have priority.

    Args:
        draft: with the sender's attributes.
        extracted: from the content.
    """
    before = draft.attributes
    attributes = replace(
        before,
        title=before.title or extracted.title,
        mime_type=before.mime_type or extracted.mime_type,
        metadata={**before.metadata, **extracted.metadata},
    )
    return replace(draft, attributes=attributes)


def _cacheable(
    found: FetchedContent, draft: Draft, metadata: ExtractedMetadata
) -> CachedContent | None:
    if found.validator is None or draft.outcome not in _CACHED_OUTCOMES:
        return None
    return CachedContent(
        found.validator, pieces_digest(draft.pieces), draft.outcome, draft.error, metadata
    )


def _unchanged_draft(base: Draft, known: CachedContent, pieces: Sequence[DraftChunk]) -> Draft:
    return with_extracted_metadata(
        replace(base, outcome=known.outcome, pieces=pieces, error=known.error), known.own
    )
