"""Extract the text of a document and split it into chunks."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from livedex.pipeline.chunking import chunk_text, chunker_config_id
from livedex.pipeline.errors import NoTextError
from livedex.pipeline.events.event import INLINE_LIMIT_BYTES
from livedex.pipeline.extract import ExtractedText, extract
from livedex.pipeline.extract.formats import needs_conversion
from livedex.pipeline.extract.text_formats import file_extension
from livedex.pipeline.model import DEFAULT_MAX_DOCUMENT_BYTES
from livedex.pipeline.runtime.tenant_shares import in_thread
from livedex.pipeline.store.drafts import DraftChunk


@dataclass(frozen=True, slots=True)
class ChunkerConfig:
    """Configuration of the chunker.

    Attributes:
        size: maximum characters of a chunk.
        overlap: maximum characters of whole sentences repeated from the previous chunk.
        max_bytes: of a document.
        text_search_config: PostgreSQL's name of the language of the keyword index.
    """

    size: int = 1400
    overlap: int = 0
    max_bytes: int = DEFAULT_MAX_DOCUMENT_BYTES
    text_search_config: str = "english"

    @property
    def id(self) -> str:
        """Return the name of this configuration; documents of another one are rechunked."""
        return chunker_config_id(self.size, self.overlap)


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """Text and chunks of a document.

    Attributes:
        state: `synced`, or the reason why there is no text.
        extracted: None if there is no text.
        pieces: the chunks, in order.
        error: what to do if there is no text.
    """

    state: str
    extracted: ExtractedText | None = None
    pieces: tuple[DraftChunk, ...] = ()
    error: str | None = None


class DocumentChunker(Protocol):
    """Chunks documents without blocking the event loop."""

    async def chunk(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        """Extract the text of a document and split it into chunks.

        Args:
            content: of the document.
            name: a file name, which may tell the format.
            mime_type: which may tell the format.
        """
        ...


def chunk_document(
    content: bytes, name: str, mime_type: str | None, config: ChunkerConfig
) -> ChunkedDocument:
    """Extract the text of a document and split it into chunks; runs in another thread or process.

    Args:
        content: of the document.
        name: a file name, which may tell the format.
        mime_type: which may tell the format.
        config: of the chunker.
    """
    try:
        extracted = extract(content, name=name, mime_type=mime_type, max_bytes=config.max_bytes)
    except NoTextError as exc:
        return ChunkedDocument(exc.state, error=str(exc))
    chunks = chunk_extracted(extracted, config)
    return ChunkedDocument(
        "synced" if chunks else "empty",
        extracted,
        chunks,
        None if chunks else "The document holds no text: write some, or leave it out.",
    )


def chunk_extracted(extracted: ExtractedText, config: ChunkerConfig) -> tuple[DraftChunk, ...]:
    """Return the chunks of a text, each with the hash of its content.

    Args:
        extracted: text of a document.
        config: of the chunker.
    """
    pieces, end = [], 0
    chunks = chunk_text(
        extracted.text,
        format=extracted.format,
        size=config.size,
        overlap=config.overlap,
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


ProcessChunkFunction: TypeAlias = Callable[
    [bytes, str, str | None, ChunkerConfig], Awaitable[ChunkedDocument]
]
"""Runs `chunk_document` in another process."""


class ThreadChunker:
    """Chunks small texts in a thread, and large ones and other formats in another process.

    Args:
        config: of the chunker.
        in_process: chunks in another process; None: all documents are chunked in a thread.
        max_thread_bytes: of a document that is chunked in a thread.
    """

    def __init__(
        self,
        config: ChunkerConfig,
        in_process: ProcessChunkFunction | None = None,
        max_thread_bytes: int = INLINE_LIMIT_BYTES,
    ) -> None:
        self._config = config
        self._in_process = in_process
        self._max_thread_bytes = max_thread_bytes

    async def chunk(self, content: bytes, *, name: str, mime_type: str | None) -> ChunkedDocument:
        """Extract the text of a document and split it into chunks.

        Args:
            content: of the document.
            name: a file name, which may tell the format.
            mime_type: which may tell the format.
        """
        small = len(content) <= self._max_thread_bytes and not needs_conversion(
            content, file_extension(name), (mime_type or "").split(";")[0].strip().lower()
        )
        if self._in_process is None or small:
            return await in_thread(chunk_document, content, name, mime_type, self._config)
        return await self._in_process(content, name, mime_type, self._config)
