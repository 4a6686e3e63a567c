"""PUT and DELETE /v1/documents/{document_id}."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from connectors.webhook.admission import Admission
from connectors.webhook.answering import REFUSALS, AcceptedDocument, accepted, described, parsed, validated
from connectors.webhook.events import check_content, check_urls
from connectors.webhook.incoming import DocumentBody, Id, Incoming, LinkedBody, Version, content_of, shown
from connectors.webhook.receiver import Receiver
from pipeline.api.answers import Json
from pipeline.api.bodies import require_json
from pipeline.api.paths import WHOLE
from pipeline.api.services import Writer
from pipeline.model import DEFAULT_COLLECTION, DocumentId, TenantId

_DOCUMENT = f"/v1/documents/{{document_id:{WHOLE}}}"
_SENDER = "documents"

Name = Annotated[Id, Path(description="whatever the document is called; its slashes may be escaped, or not")]


def documents_router(receiver: Receiver, admission: Admission, *, most_bytes: int, max_document_bytes: int) -> APIRouter:
    """The routes that take one document.

    Args:
        most_bytes: of a body.
        max_document_bytes: of the document in it.
    """
    router = APIRouter(tags=["documents"])

    @router.put(
        _DOCUMENT,
        name="put_document",
        status_code=202,
        responses=accepted(AcceptedDocument, *REFUSALS, 404),
        openapi_extra=described(("application/json", DocumentBody if receiver.fetcher is None else LinkedBody)),
    )
    async def put(request: Request, document_id: Name, caller: Writer) -> Response:
        """Make this the document's content. The same version with the same content again changes nothing; a version that is not the newest
        is accepted, and ends superseded."""
        require_json(request)
        async with admission.body(request, most_bytes) as raw:
            incoming = _incoming(DocumentId(document_id), validated(LinkedBody, parsed(raw)))
            check_content(receiver, [incoming], [("url",)], max_document_bytes)
            check_urls(receiver, caller.tenant_id, [incoming], [("url",)])
            return await _accept(receiver, caller.tenant_id, incoming)

    @router.delete(
        _DOCUMENT,
        name="delete_document",
        status_code=202,
        responses=accepted(AcceptedDocument, 401, 403, 404, 409, 422, 429, 503),
    )
    async def delete(
        document_id: Name,
        caller: Writer,
        version: Annotated[Version | None, Query(description="of the delete; default: newer than every version before")] = None,
    ) -> Response:
        """Delete the document. Deleting what is not there is accepted too, and keeps older versions from coming back."""
        return await _accept(receiver, caller.tenant_id, Incoming(DocumentId(document_id), deleted=True, version=version))

    return router


def _incoming(document_id: DocumentId, body: LinkedBody) -> Incoming:
    content, mime_type = content_of(body, document_id)
    return Incoming(
        document_id, content=content, url=body.url, version=body.version, mime_type=mime_type, title=body.title, uri=body.uri or shown(body.url),
        collection=body.collection or DEFAULT_COLLECTION, metadata=body.metadata or {}, acl=body.acl,
    )  # fmt: skip


async def _accept(receiver: Receiver, tenant_id: TenantId, incoming: Incoming) -> Response:
    [done] = await receiver.accept(tenant_id, _SENDER, [incoming])
    return Json(done, 202)
