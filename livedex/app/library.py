"""Livedex as a library: the same stages, one document at a time, without a broker."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from livedex.app.library_reading import DocumentReader, require_list
from livedex.pipeline.errors import RejectedError
from livedex.pipeline.model import Chunk, DocumentId, TextFormat

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.ask.ask_engine import Answer
    from livedex.pipeline.events.event import Changed, Event
    from livedex.pipeline.search.engine import SearchResult
    from livedex.pipeline.settings import Settings
    from livedex.pipeline.stages.embed import PassageEmbedder

# What the methods need is imported in them: every command and every child process imports
# `livedex`, and few of them use the library.


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What an ingest did.

    Attributes:
        chunks: of the version now visible.
        embedded: passages that were sent to the embedder.
        reused: distinct passages that were known already.
        deleted: chunk rows taken out.
        superseded: a newer version was there, and nothing was done.
        tokens: of the embedded passages, as the provider counted them, or estimated.
        cost: of these tokens in US dollars; None where no price is known.
    """

    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    deleted: int = 0
    superseded: bool = False
    tokens: int = field(default=0, compare=False)
    cost: Decimal | None = field(default=None, compare=False)


class Livedex(DocumentReader):
    """An index in this process; see `open`."""

    def __init__(self, surroundings: AppContext, gatherer: PassageEmbedder) -> None:
        from livedex.pipeline.stages.document_chunker import ThreadChunker

        super().__init__(surroundings)
        self._gatherer = gatherer
        self._cutter = ThreadChunker(surroundings.cutting)

    @classmethod
    @asynccontextmanager
    async def open(
        cls, settings: Settings, data: Path = Path(".livedex")
    ) -> AsyncIterator[Livedex]:
        """Open the index for as long as the block lasts.

        Args:
            settings: as from `livedex.pipeline.settings.load_settings`.
            data: the data directory, without `LIVEDEX_DATABASE_URL`.

        Raises:
            ConfigError: the settings or the surroundings do not allow it.
        """
        from livedex.app.wiring import open_app_context
        from livedex.consumers.embed import open_passage_embedder

        async with AsyncExitStack() as stack:
            s = await stack.enter_async_context(open_app_context(settings, data))
            gatherer = await stack.enter_async_context(
                open_passage_embedder(s.store, s.embeddings, s.claims)
            )
            yield cls(s, gatherer)

    async def ingest(
        self,
        document_id: str,
        text: str,
        *,
        tenant_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        collection: str = "default",
        title: str | None = None,
        uri: str | None = None,
        mime_type: str = "text/markdown",
        version: int | None = None,
        acl: Collection[str] | None = None,
    ) -> IngestResult:
        """Make a text the visible version of a document.

        Args:
            document_id: of the document.
            text: of the document.
            tenant_id: the tenant.
            metadata: of any values; what is no JSON becomes a text, and torn halves of characters
                become U+FFFD, as in the text.
            collection: of the document.
            title: of the document.
            uri: where the document stands.
            mime_type: of the text.
            version: grows with each change, 0 to the clock in nanoseconds and a day; default: the
                clock in nanoseconds.
            acl: the principals that may read it; None: everybody of the tenant, empty: nobody.

        Raises:
            TenantRequiredError: no tenant, in a service that has several.
            RejectedError: the document can never be indexed; the message says why, and names the
            argument that makes no sense.
            OutageError: the database or the embedder is away.
        """
        from livedex.pipeline.events.event import change_event
        from livedex.pipeline.events.version_limits import version_problem
        from livedex.pipeline.extract import sanitize_json, sanitize_optional_text

        tenant = self._tenant(tenant_id)
        if version is not None and (why := version_problem(version)) is not None:
            raise RejectedError(f"version: {why}", reason="invalid_document")
        content = text.encode("utf-8", "surrogatepass")
        data = _change(
            tenant_id=tenant,
            document_id=document_id,
            version=time.time_ns() if version is None else version,
            blob=hashlib.sha256(content).hexdigest(),
            size_bytes=len(content),
            name=document_id,
            mime_type=mime_type,
            collection=collection,
            title=sanitize_optional_text(title),
            uri=sanitize_optional_text(uri),
            metadata=sanitize_json(dict(metadata or {})),
            changed_at=datetime.now(UTC),
            acl=None if acl is None else require_list("acl", acl),
        )
        return await self._ingest(change_event(data), content)

    async def _ingest(self, event: Event[Changed], content: bytes) -> IngestResult:
        from livedex.app.inline_ingest import InlineIngest
        from livedex.pipeline.stages.chunk import ChunkStage
        from livedex.pipeline.stages.embed import embed
        from livedex.pipeline.stages.outcome import Forward

        s, reused = self.surroundings, 0

        def count(passages: int) -> None:
            nonlocal reused
            reused = passages

        with closing(InlineIngest(s, content, self._gatherer)) as version:
            first = await ChunkStage(
                store=s.store,
                drafts=version,
                blobs=version,
                chunker=self._cutter,
                config=s.cutting,
                record_reused=count,
            ).run(event)
            if not isinstance(first, Forward):
                return IngestResult(superseded=True)
            second = await embed(
                first.event, store=version, generations=s.generations, embedder=version
            )
            if not isinstance(second, Forward):
                return IngestResult(superseded=True)
            done = await version.sync()
        if not done.current:
            return IngestResult(superseded=True)
        bill = done.bill
        return IngestResult(
            done.chunks,
            version.embedded,
            reused,
            done.deleted,
            tokens=0 if bill is None else bill.tokens,
            cost=None if bill is None else bill.cost,
        )

    async def patch(
        self, document_id: str, changes: Mapping[str, Any], *, tenant_id: str | None = None
    ) -> IngestResult:
        """Change what a document carries besides its content, with a version built on the newest
        that was accepted.

        Args:
            document_id: of the document.
            changes: some of `title`, `uri`, `metadata` (merged, RFC 7396), `acl`, `collection`;
                null takes one away.
            tenant_id: the tenant.

        Raises:
            TenantRequiredError: no tenant, in a service that has several.
            NotFoundError: there is no such document.
            RejectedError: a change makes no sense; the message names it.
            RetryableError: what was accepted last has not been processed yet.
            OutageError: the database or the embedder is away.
        """
        from livedex.pipeline.events.event import change_event
        from livedex.pipeline.stages.embed import embed
        from livedex.pipeline.stages.outcome import Forward
        from livedex.pipeline.stages.patch import patch
        from livedex.pipeline.store.documents.document_patches import DocumentPatcher
        from livedex.pipeline.store.documents.version_allocator import VersionAllocator

        tenant, s = self._tenant(tenant_id), self.surroundings
        given = await VersionAllocator(s.database).allocate_patch(tenant, DocumentId(document_id))
        data = _change(
            tenant_id=tenant,
            document_id=document_id,
            version=given.version,
            changed_at=datetime.now(UTC),
            patch=_checked(changes),
            builds_on=given.builds_on,
            held=given.held,
        )
        first = await patch(change_event(data), DocumentPatcher(s.database))
        if not isinstance(first, Forward):
            return IngestResult(superseded=True)
        second = await embed(
            first.event, store=s.store, generations=s.generations, embedder=self._gatherer
        )
        if not isinstance(second, Forward):
            return IngestResult(superseded=True)
        done = await s.store.sync_document(
            tenant, DocumentId(document_id), data.fence, await s.generations.active()
        )
        return (
            IngestResult(done.chunks, 0, done.chunks, done.deleted)
            if done.current
            else IngestResult(superseded=True)
        )

    async def search(
        self,
        query: str,
        *,
        tenant_id: str | None = None,
        principals: Collection[str] | None = None,
        **fields: Any,
    ) -> SearchResult:
        """Search, with the fields of POST /v1/search.

        Args:
            query: the query.
            tenant_id: the tenant.
            principals: on whose behalf: only documents that one of them may read, and those that
                everybody may. None: every document.
            fields: further fields of the request, as in the HTTP API.

        Raises:
            TenantRequiredError: no tenant, in a service that has several.
            RejectedError: `principals` is one text and no list of them.
            pydantic.ValidationError: a field without sense.
        """
        from livedex.pipeline.search.request import SearchRequest

        return await self.surroundings.engine.search(
            self._reader(tenant_id, principals), SearchRequest(query=query, **fields)
        )

    async def ask(
        self,
        question: str,
        *,
        tenant_id: str | None = None,
        principals: Collection[str] | None = None,
        **fields: Any,
    ) -> Answer:
        """Answer a question with citations, with the fields of POST /v1/ask.

        Args:
            question: to be answered.
            tenant_id: the tenant.
            principals: as of `search`.
            fields: further fields of the request, as in the HTTP API.

        Raises:
            TenantRequiredError: no tenant, in a service that has several.
            RejectedError: `principals` is one text and no list of them.
            pydantic.ValidationError: a field is invalid.
        """
        from livedex.pipeline.ask.request import AskRequest

        return await self.surroundings.ask.ask(
            self._reader(tenant_id, principals), AskRequest(question=question, **fields)
        )

    async def delete(self, document_id: str, *, tenant_id: str | None = None) -> bool:
        """Delete a document; a document that is not there is no error.

        Returns:
            Whether the delete is the newest that is known of the document.

        Raises:
            TenantRequiredError: no tenant, in a service that has several.
            RejectedError: nothing can be called so.
            OutageError: the database is away.
        """
        fence = _change(
            tenant_id=self._tenant(tenant_id),
            document_id=document_id,
            version=time.time_ns(),
            deleted=True,
        ).fence
        done = await self.surroundings.store.delete_document(
            self._tenant(tenant_id), DocumentId(document_id), fence
        )
        return done.current

    def chunk_text(self, text: str, *, format: TextFormat = "markdown") -> list[Chunk]:
        """The chunks that a text would be cut into."""
        from livedex.pipeline.chunking import chunk_text as cut_text
        from livedex.pipeline.extract import embedded_data_spans

        settings = self.surroundings.settings
        return cut_text(
            text,
            format=format,
            size=settings.chunk_size,
            overlap=settings.chunk_overlap,
            left_out=embedded_data_spans(text),
        )


def _checked(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The changes of a patch.

    Raises:
        RejectedError: one makes no sense, or there is none.
    """
    from pydantic import ValidationError

    from livedex.pipeline.events.decoder import first_invalid_field
    from livedex.pipeline.events.merge_patch import PATCH_FIELDS
    from livedex.pipeline.ingest.change_request import PatchBody

    given = dict(changes)
    if "acl" in given and given["acl"] is not None:
        given["acl"] = require_list("acl", given["acl"])
    try:
        body = PatchBody.model_validate(given)
    except ValidationError as exc:
        raise RejectedError(first_invalid_field(exc), reason="invalid_document") from exc
    if not body.model_fields_set:
        raise RejectedError(
            f"name what changes: {', '.join(PATCH_FIELDS)}", reason="invalid_document"
        )
    return body.model_dump(include=body.model_fields_set)


def _change(**fields: Any) -> Changed:
    """A change, with the fields of `Changed`.

    Raises:
        RejectedError: one makes no sense; the message names it, and not what stood in it.
    """
    from pydantic import ValidationError

    from livedex.pipeline.events.decoder import first_invalid_field
    from livedex.pipeline.events.event import Changed

    try:
        return Changed(**fields)
    except ValidationError as exc:
        raise RejectedError(first_invalid_field(exc), reason="invalid_document") from exc


def format_context(hits: Sequence[Mapping[str, Any]], *, max_chars: int) -> str:
    """The hits as numbered excerpts for a prompt, in order; stops before one would be cut.

    Args:
        hits: with `content`, `document_id` and, where there are some, `title` and `heading`.
        max_chars: of the whole, > 0.

    Raises:
        RejectedError: a value has the wrong type.
    """
    if max_chars <= 0:
        raise RejectedError("max_chars must be above 0")
    parts: list[str] = []
    used = 0
    for number, hit in enumerate(hits, 1):
        names = [hit.get("title") or hit["document_id"], *hit.get("heading", ())]
        place = " > ".join(
            name
            for n, name in enumerate(names)
            if n == 0 or name.casefold() != names[n - 1].casefold()
        )
        part = f"[{number}] {place}\n{hit['content']}"
        used += len(part) + (2 if parts else 0)
        if used > max_chars:
            break
        parts.append(part)
    return "\n\n".join(parts)
