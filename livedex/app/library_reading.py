"""What the library tells of documents: the same as the read API."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from livedex.pipeline.errors import RejectedError, TenantRequiredError
from livedex.pipeline.model import DEFAULT_TENANT, DocumentId, Reader, TenantId

if TYPE_CHECKING:
    from livedex.app.wiring import AppContext
    from livedex.pipeline.store.documents.document_queries import (
        ChunksView,
        DocumentView,
        SyncState,
    )


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A page of documents, in the order of their ids.

    Attributes:
        next_cursor: of the next page; None on the last.
    """

    documents: Sequence[DocumentView]
    next_cursor: str | None


class DocumentReader:
    """The reading half of `livedex.Livedex`. Every method may raise what these do.

    Raises:
        TenantRequiredError: no tenant, in a service that has several.
        RejectedError: `principals` is one text and no list of them.
        OutageError: the database is away.
    """

    def __init__(self, surroundings: AppContext) -> None:
        from livedex.pipeline.store.documents.document_queries import DocumentQueries

        self.surroundings = surroundings
        self._documents = DocumentQueries(surroundings.database)

    async def get(
        self,
        document_id: str,
        *,
        tenant_id: str | None = None,
        principals: Collection[str] | None = None,
    ) -> DocumentView | None:
        """Return a document; None where there is none, or it is not for the reader.

        Args:
            document_id: of the document.
            tenant_id: the tenant.
            principals: on whose behalf; None: whoever reads everything.
        """
        return await self._documents.get(
            self._reader(tenant_id, principals), DocumentId(document_id)
        )

    async def chunks(
        self,
        document_id: str,
        *,
        tenant_id: str | None = None,
        principals: Collection[str] | None = None,
    ) -> ChunksView | None:
        """Return a document's visible chunks in order, or None if there is no such document."""
        return await self._documents.chunks(
            self._reader(tenant_id, principals), DocumentId(document_id)
        )

    async def list(
        self,
        *,
        tenant_id: str | None = None,
        collection: str | None = None,
        source: str | None = None,
        state: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        principals: Collection[str] | None = None,
    ) -> DocumentPage:
        """Return a page of documents in the order of their ids.

        Args:
            tenant_id: the tenant.
            collection, source, state: only documents with these.
            collection: only documents of this collection.
            source: only documents of this source.
            state: only documents in this state.
            limit: documents at most, 1 to 1000.
            cursor: `next_cursor` of the page before.
            principals: on whose behalf is read; None: everything.

        Raises:
            RejectedError: the limit or the cursor makes no sense.
        """
        if not 1 <= limit <= 1000:
            raise RejectedError("limit: a page has 1 to 1000 documents", reason="invalid_request")
        found, next_cursor = await self._documents.page(
            self._reader(tenant_id, principals),
            collection=collection,
            source=source,
            state=state,
            limit=limit,
            cursor=cursor,
        )
        return DocumentPage(found, next_cursor)

    async def wait(
        self, token: str, *, tenant_id: str | None = None, timeout_s: float = 30.0
    ) -> SyncState:
        """Wait for a change that was accepted over HTTP, and return its state: `pending` when the
        time was not enough.

        Args:
            token: of the answer 202.
            tenant_id: the tenant.
            timeout_s: seconds at most, 0 to 30.

        Raises:
            NotFoundError: this tenant was never given such a token.
        """
        from livedex.pipeline.api.sync_waiter import SyncWaiter
        from livedex.pipeline.ingest.sync_token import read_sync_token

        tenant = self._tenant(tenant_id)
        document_id, version = read_sync_token(tenant, token)
        return await SyncWaiter(self._documents).wait(
            Reader(tenant), document_id, version, timeout_s
        )

    def _reader(self, tenant_id: str | None, principals: Collection[str] | None) -> Reader:
        return Reader(
            self._tenant(tenant_id),
            None if principals is None else frozenset(require_list("principals", principals)),
        )

    def _tenant(self, tenant_id: str | None) -> TenantId:
        if tenant_id:
            return TenantId(tenant_id)
        if self.surroundings.settings.tenant_scoped:
            raise TenantRequiredError(
                "name a tenant_id, or set LIVEDEX_TENANT_SCOPED=false for a service with one tenant"
            )
        return DEFAULT_TENANT


def require_list(argument: str, names: Collection[str]) -> tuple[str, ...]:
    """Return several names; one text is a collection of its letters, which nobody means.

    Raises:
        RejectedError: it is one text.
    """
    if isinstance(names, str):
        raise RejectedError(
            f"{argument} is a list of principals, and not one text", reason="invalid_document"
        )
    return tuple(names)
