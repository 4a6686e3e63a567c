"""The chunk stage: from a changed document to its manifest and its new passages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from livedex.pipeline.errors import LivedexError, NoTextError, NotScheduledError, RejectedError
from livedex.pipeline.events.event import CHUNKED, Changed, Event, next_stage_event
from livedex.pipeline.extract import is_supported_file, sanitize_json, sanitize_optional_text
from livedex.pipeline.model import Attributes
from livedex.pipeline.stages.document_chunker import ChunkerConfig, DocumentChunker
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.patch import PatchStore, patch
from livedex.pipeline.stages.remote_content import (
    FetchedContent,
    RemoteContent,
    RemoteDraft,
    with_extracted_metadata,
)
from livedex.pipeline.store.drafts import AccessUpdate, Draft, ExtractedMetadata
from livedex.pipeline.store.protocol import Contents, VectorStore

_GENERIC_TYPES = frozenset({"text/plain", "application/octet-stream", "binary/octet-stream"})
"""MIME types that servers send for unknown files: a known file extension has priority."""


class DraftStore(Protocol):
    """Stores manifests."""

    async def store_draft(self, draft: Draft) -> int | None:
        """Store the manifest of a version.

        Args:
            draft: of the version.

        Returns:
            the number of new passages; None if a newer version is known, or this one is processed.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ChunkStage:
    """Chunks a changed document, accepts its version and stores its manifest.

    Attributes:
        store: of documents.
        drafts: stores manifests in the same store.
        blobs: content above the inline limit.
        chunker: chunks documents.
        config: of the chunker.
        record_reused: called with the number of passages that were already stored.
        remote_content: fetches content by URL; None: events without content are rejected.
        patches: stores versions that change metadata only; None: these are rejected.
    """

    store: VectorStore
    drafts: DraftStore
    blobs: Contents
    chunker: DocumentChunker
    config: ChunkerConfig
    record_reused: Callable[[int], None]
    remote_content: RemoteContent | None = None
    patches: PatchStore | None = None

    async def run(self, event: Event[Changed]) -> Forward | Finished:
        """Process one event.

        Args:
            event: of a change.

        Raises:
            LivedexError: as the store, the blobs and the fetcher do.
        """
        if event.data.any_version:
            version = await self.store.delete_arrived_before(
                event.tenant_id, event.document_id, event.arrival
            )
            if version is None:
                return Finished(superseded=True)
            event = event.model_copy(
                update={"data": event.data.model_copy(update={"version": version})}
            )
        if event.data.listing:
            return await self._list_changes(event)
        if event.data.patch is not None:
            return await patch(event, self.patches)
        return await self._chunk(event)

    async def _list_changes(self, event: Event[Changed]) -> Finished:
        """Ingest the changes that an event announces.

        Raises:
            RejectedError: no changes are listed here.
        """
        if self.remote_content is None:
            raise RejectedError(
                "changes are not looked up here: send each document", reason="not_listed"
            )
        await self.remote_content.list_changes(event)
        return Finished()

    async def _chunk(self, event: Event[Changed]) -> Forward | Finished:
        data, fence = event.data, event.data.fence
        attributes = replace(
            data.attributes,
            title=sanitize_optional_text(data.title),
            uri=sanitize_optional_text(data.uri),
            metadata=sanitize_json(data.metadata),
        )
        await self._apply_access_update(event)
        base = Draft(
            event.tenant_id,
            event.document_id,
            fence,
            "deleted",
            attributes,
            event.accepted,
            cut=self.config.id,
            arrival=event.arrival,
        )
        try:
            made = await self._make_draft(event, base)
        except RejectedError:
            if await self._accept(event, attributes):
                raise
            # a newer version was processed meanwhile, which removed the content of this one
            return Finished(superseded=True)
        if made is None:
            return Finished(superseded=True)
        new = await self.drafts.store_draft(made.draft)
        if new is None:
            return Finished(superseded=True)
        if self.remote_content is not None:
            await self.remote_content.cache(made)
        self.record_reused(len({piece.hash for piece in made.draft.pieces}) - new)
        return Forward(next_stage_event(CHUNKED, event, fence))

    async def _accept(self, event: Event[Changed], attributes: Attributes) -> bool:
        return await self.store.accept(
            event.tenant_id,
            event.document_id,
            event.data.fence,
            attributes,
            event.accepted,
            event.arrival,
        )

    async def _apply_access_update(self, event: Event[Changed]) -> None:
        """Apply an access control list now if the content may be slow or unavailable."""
        data = event.data
        if data.acl is None or data.deleted or (data.url is None and data.blob is None):
            return
        await self.store.apply_access_updates(
            event.tenant_id, [AccessUpdate(event.document_id, data.fence, data.acl)]
        )

    async def _make_draft(self, event: Event[Changed], base: Draft) -> RemoteDraft | None:
        """Return the draft of a version; None if the version is superseded."""
        data = event.data
        is_fetched = data.url is not None and not data.deleted and data.unreadable is None
        if self.remote_content is not None and is_fetched:
            return await self._fetch_draft(event, base, self.remote_content)
        return RemoteDraft(await self._draft(event, base))

    async def _draft(self, event: Event[Changed], base: Draft) -> Draft:
        """Return the draft of content that came with the event.

        Raises:
            RejectedError: the event has only a URL.
        """
        data, max_bytes = event.data, self.config.max_bytes
        if data.deleted:
            return base
        if data.unreadable is not None:
            return replace(base, outcome="unreadable", keep=True, error=data.unreadable)
        if data.size_bytes > max_bytes:
            return replace(
                base,
                outcome="too_large",
                error=f"{data.size_bytes} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES "
                f"({max_bytes}): split it or raise the limit.",
            )
        if data.url is not None:
            raise RejectedError(
                "the event has a URL and no content, and no content is fetched here: send the "
                "content",
                reason="not_fetched",
            )
        content = (
            data.content_bytes()
            if data.blob is None
            else await self.blobs.get(event.tenant_id, event.document_id, data.version, data.blob)
        )
        name = data.name or data.document_id
        return (await self._chunk_content(base, content, name, data.mime_type))[0]

    async def _fetch_draft(
        self, event: Event[Changed], base: Draft, remote_content: RemoteContent
    ) -> RemoteDraft | None:
        """Return the draft of fetched content; None if a newer version is known before the request
        or after it failed.

        Raises:
            LivedexError: the content cannot be fetched or stored now.
            NotScheduledError: too many requests to its server.
        """
        data = event.data

        async def build(found: FetchedContent) -> tuple[Draft, ExtractedMetadata]:
            candidates = [data.name, data.document_id, found.name]
            names = [name for name in candidates if is_supported_file(name)]
            mime_type = None if names and found.mime_type in _GENERIC_TYPES else found.mime_type
            return await self._chunk_content(
                base,
                found.content,
                names[0] if names else data.name or data.document_id,
                data.mime_type or mime_type,
            )

        if await remote_content.is_superseded(base):
            return None
        try:
            return await remote_content.draft(event, base, build)
        except NoTextError as exc:
            return RemoteDraft(replace(base, outcome=exc.state, error=str(exc)))
        except NotScheduledError:
            raise
        except LivedexError:
            if await remote_content.is_superseded(base):
                return None
            raise

    async def _chunk_content(
        self, base: Draft, content: bytes, name: str, mime_type: str | None
    ) -> tuple[Draft, ExtractedMetadata]:
        chunked = await self.chunker.chunk(content, name=name, mime_type=mime_type)
        extracted = chunked.extracted
        metadata = (
            ExtractedMetadata()
            if extracted is None
            else ExtractedMetadata(extracted.title, extracted.mime_type, extracted.metadata)
        )
        draft = replace(base, outcome=chunked.state, pieces=chunked.pieces, error=chunked.error)
        return with_extracted_metadata(draft, metadata), metadata
