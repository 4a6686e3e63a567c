"""The chunk stage: from a changed document to its manifest and the passages that were not known."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from livedex.pipeline.chunking import chunk_text, chunker_config_id
from livedex.pipeline.errors import LivedexError, NoTextError, NotScheduledError, RejectedError
from livedex.pipeline.events.event import CHUNKED, Changed, Event, next_stage_event
from livedex.pipeline.extract import (
    ExtractedText,
    extract,
    is_supported_file,
    sanitize_json,
    sanitize_optional_text,
)
from livedex.pipeline.runtime.tenant_shares import in_thread
from livedex.pipeline.stages.outcome import Finished, Forward
from livedex.pipeline.stages.patch import PatchStore, patch
from livedex.pipeline.stages.remote_content import (
    FetchedContent,
    RemoteContent,
    RemoteDraft,
    with_extracted_metadata,
)
from livedex.pipeline.store.protocol import (
    AccessUpdate,
    Contents,
    Draft,
    DraftChunk,
    ExtractedMetadata,
    VectorStore,
)

_VAGUE = frozenset({"text/plain", "application/octet-stream", "binary/octet-stream"})
"""What servers say of files that they know nothing of: a name that says more wins."""


@dataclass(frozen=True, slots=True)
class ChunkerConfig:
    """How documents are cut.

    Attributes:
        size: the most characters of a chunk.
        overlap: the most that whole sentences repeated from the one before add.
        max_bytes: of a document.
    """

    size: int = 1400
    overlap: int = 0
    max_bytes: int = 67_108_864

    @property
    def id(self) -> str:
        """Names this way of cutting; another one means: cut anew."""
        return chunker_config_id(self.size, self.overlap)


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A document taken apart.

    Attributes:
        extracted: None where there is no text.
        state: `synced`, or why there is no text.
        error: what to do in that case.
    """

    state: str
    extracted: ExtractedText | None = None
    pieces: tuple[DraftChunk, ...] = ()
    error: str | None = None


class DocumentChunker(Protocol):
    """Takes documents apart without holding up the event loop."""

    async def cut(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        """Extract the text and cut it."""
        ...


class DraftStore(Protocol):
    """Keeps manifests."""

    async def keep(self, draft: Draft) -> int | None:
        """How many passages were not known; None where a newer version is known, or this very one
        has ended.
        """
        ...


def chunk_document(
    content: bytes, name: str, mime_type: str | None, cutting: ChunkerConfig
) -> ChunkedDocument:
    """Extract the text of a document and cut it; runs in another thread or process.

    Args:
        content: the bytes.
        name: a file name, for the format.
    """
    try:
        extracted = extract(content, name=name, mime_type=mime_type, max_bytes=cutting.max_bytes)
    except NoTextError as exc:
        return ChunkedDocument(exc.state, error=str(exc))
    pieces = chunk_extracted(extracted, cutting)
    return ChunkedDocument(
        "synced" if pieces else "empty",
        extracted,
        pieces,
        None if pieces else "The document holds no text: write some, or leave it out.",
    )


def chunk_extracted(extracted: ExtractedText, cutting: ChunkerConfig) -> tuple[DraftChunk, ...]:
    """The chunks of a text, each with the hash of what is embedded for it."""
    pieces, end = [], 0
    chunks = chunk_text(
        extracted.text,
        format=extracted.format,
        size=cutting.size,
        overlap=cutting.overlap,
        start=extracted.start,
        front=extracted.searchable_front_matter,
        left_out=extracted.left_out,
    )
    for chunk in chunks:
        content = extracted.text[chunk.start : chunk.end]
        pieces.append(
            DraftChunk(
                hashlib.sha256(content.encode()).digest(), content, chunk.start - end, chunk.heading
            )
        )
        end = chunk.end
    return tuple(pieces)


async def chunk(
    event: Event[Changed],
    *,
    store: VectorStore,
    keeper: DraftStore,
    blobs: Contents,
    cutter: DocumentChunker,
    cutting: ChunkerConfig,
    reused: Callable[[int], None],
    linked: RemoteContent | None = None,
    patches: PatchStore | None = None,
) -> Forward | Finished:
    """Cut a changed document, accept its version, and keep the manifest.

    Args:
        keeper: on the store.
        reused: told how many passages were known already.
        linked: gets the content of events that only say where it is; None refuses these.
        patches: keeps versions that change others; None refuses these.

    Raises:
        OutageError, RetryableError, RejectedError: as the store and the blobs do.
    """
    if event.data.any_version:
        version = await store.delete_arrived_before(
            event.tenant_id, event.document_id, event.arrival
        )
        if version is None:
            return Finished(superseded=True)
        event = event.model_copy(
            update={"data": event.data.model_copy(update={"version": version})}
        )
    if event.data.listing:
        return await _follow(event, linked)
    if event.data.patch is not None:
        return await patch(event, patches)
    data, fence = event.data, event.data.fence
    attributes = replace(
        data.attributes,
        title=sanitize_optional_text(data.title),
        uri=sanitize_optional_text(data.uri),
        metadata=sanitize_json(data.metadata),
    )
    if (
        data.acl is not None
        and not data.deleted
        and (data.url is not None or data.blob is not None)
    ):
        await store.apply_access_updates(
            event.tenant_id, [AccessUpdate(event.document_id, fence, data.acl)]
        )  # they hold while its content is slow or away
    base = Draft(
        event.tenant_id,
        event.document_id,
        fence,
        "deleted",
        attributes,
        event.accepted,
        cut=cutting.id,
        arrival=event.arrival,
    )
    found: RemoteDraft | None = None
    try:
        if (
            linked is not None
            and data.url is not None
            and not data.deleted
            and data.unreadable is None
        ):
            found = await _draft_of_url(event, base, cutter, linked)
            if found is None:
                return Finished(superseded=True)
        draft = (
            found.draft if found is not None else await _draft(event, base, blobs, cutter, cutting)
        )
    except RejectedError:
        if await store.accept(
            event.tenant_id, event.document_id, fence, attributes, event.accepted, event.arrival
        ):
            raise
        # a newer version ended meanwhile, and with it went the content of this one
        return Finished(superseded=True)
    new = await keeper.keep(draft)
    if new is None:
        return Finished(superseded=True)
    if found is not None and linked is not None:
        await linked.remember(found)
    reused(len({piece.hash for piece in draft.pieces}) - new)
    return Forward(next_stage_event(CHUNKED, event, fence))


async def _follow(event: Event[Changed], linked: RemoteContent | None) -> Finished:
    """Have the changes looked up that an event stands for."""
    if linked is None:
        raise RejectedError(
            "changes are not looked up here: send each document", reason="not_listed"
        )
    await linked.follow(event)
    return Finished()


async def _draft(
    event: Event[Changed],
    base: Draft,
    blobs: Contents,
    cutter: DocumentChunker,
    cutting: ChunkerConfig,
) -> Draft:
    data = event.data
    if data.deleted:
        return base
    if data.unreadable is not None:
        return replace(base, outcome="unreadable", keep=True, error=data.unreadable)
    if data.size_bytes > cutting.max_bytes:
        return replace(
            base,
            outcome="too_large",
            error=f"{data.size_bytes} bytes are more than LIVEDEX_MAX_DOCUMENT_BYTES "
            f"({cutting.max_bytes}): split it or raise the limit.",
        )
    if data.url is not None:
        raise RejectedError(
            "the content stands at a URL, and none is fetched here: send it along",
            reason="not_fetched",
        )
    content = (
        data.content_bytes()
        if data.blob is None
        else await blobs.get(event.tenant_id, event.document_id, data.version, data.blob)
    )
    return (await _cut(base, cutter, content, data.name or data.document_id, data.mime_type))[0]


async def _draft_of_url(
    event: Event[Changed], base: Draft, cutter: DocumentChunker, linked: RemoteContent
) -> RemoteDraft | None:
    """What is made of a content at a URL; None where a newer version is known, before anybody was
    asked or meanwhile.
    """
    data = event.data

    async def cut(found: FetchedContent) -> tuple[Draft, ExtractedMetadata]:
        names = [
            name for name in (data.name, data.document_id, found.name) if is_supported_file(name)
        ]
        mime_type = None if names and found.mime_type in _VAGUE else found.mime_type
        return await _cut(
            base,
            cutter,
            found.content,
            names[0] if names else data.name or data.document_id,
            data.mime_type or mime_type,
        )

    if await linked.is_ended(base):
        return None
    try:
        return await linked.draft(event, base, cut)
    except NoTextError as exc:
        return RemoteDraft(replace(base, outcome=exc.state, error=str(exc)))
    except NotScheduledError:
        raise
    except LivedexError:
        if await linked.is_ended(base):
            return None
        raise


async def _cut(
    base: Draft, cutter: DocumentChunker, content: bytes, name: str, mime_type: str | None
) -> tuple[Draft, ExtractedMetadata]:
    cut = await cutter.cut(content, name=name, mime_type=mime_type)
    found = cut.extracted
    own = (
        ExtractedMetadata()
        if found is None
        else ExtractedMetadata(found.title, found.mime_type, found.metadata)
    )
    return with_extracted_metadata(
        replace(base, outcome=cut.state, pieces=cut.pieces, error=cut.error), own
    ), own


OutOfProcessChunker = Callable[[bytes, str, str | None, ChunkerConfig], Awaitable[ChunkedDocument]]


class ThreadChunker:
    """Cuts small documents in a thread and leaves large ones to another process, so that the event
    loop stays free.

    Args:
        elsewhere: runs `cut_document` in another process; None cuts everything in a thread.
        small_bytes: up to this size a thread does.
    """

    def __init__(
        self,
        cutting: ChunkerConfig,
        elsewhere: OutOfProcessChunker | None = None,
        small_bytes: int = 262_144,
    ) -> None:
        self._cutting = cutting
        self._elsewhere = elsewhere
        self._small_bytes = small_bytes

    async def cut(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        if self._elsewhere is None or len(content) <= self._small_bytes:
            return await in_thread(chunk_document, content, name, mime_type, self._cutting)
        return await self._elsewhere(content, name, mime_type, self._cutting)
