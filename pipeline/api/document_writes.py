"""PUT, PATCH and DELETE /v1/documents/{document_id}, and POST /v1/documents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from livedex.pipeline.api.document_uploads import FIELDS as UPLOADED
from livedex.pipeline.api.document_uploads import FORM, NewDocument, check_origin, check_query, new_id, of_body, of_bytes, of_form, of_new
from livedex.pipeline.api.events import check_content, check_urls
from livedex.pipeline.api.openapi import described
from livedex.pipeline.api.schemas import REFUSALS, AcceptedDocument, accepted
from livedex.pipeline.api.services import Writer
from livedex.pipeline.events.merge_patch import FIELDS
from livedex.pipeline.http.answers import Json
from livedex.pipeline.http.bodies import is_json, media_type, require_json
from livedex.pipeline.http.body_budget import Admission
from livedex.pipeline.http.request_path import WHOLE
from livedex.pipeline.http.validation import off_loop, parsed, refused, validated
from livedex.pipeline.ingest.change_request import DocumentBody, Id, Incoming, LinkedBody, PatchBody, Version
from livedex.pipeline.ingest.request_ingester import Receiver
from livedex.pipeline.model import DocumentId, TenantId

_DOCUMENT = f"/v1/documents/{{document_id:{WHOLE}}}"
_SENDER = "documents"
PATCH_BYTES = 1_048_576
_BINARY: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "the content itself, of whatever kind its Content-Type says",
}
_BYTES = tuple((media, _BINARY) for media in ("text/markdown", "text/plain", "application/octet-stream"))
_FORM: dict[str, Any] = {
    "type": "object", "required": ["file"], "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary"}, "acl": {"type": "array", "items": {"type": "string"}},
        "metadata": {"type": "string", "description": "a JSON object"},
        **{name: {"type": "string"} for name in ("document_id", "mime_type", "title", "uri", "collection", "version")},
    },
}  # fmt: skip

InQuery = Annotated[str | None, Query(description="of a content that is the body itself")]
MetadataInQuery = Annotated[str | None, Query(description="of a content that is the body itself: a JSON object")]
AclInQuery = Annotated[list[str] | None, Query(description="of a content that is the body itself; an empty one: nobody may read it")]
VersionInQuery = Annotated[str | None, Query(description="of a content that is the body itself", pattern=r"^[0-9]{1,19}$")]

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
        openapi_extra=described(("application/json", DocumentBody if receiver.fetcher is None else LinkedBody), *_BYTES),
    )
    async def put(
        request: Request, document_id: Name, caller: Writer, title: InQuery = None, uri: InQuery = None, metadata: MetadataInQuery = None,
        acl: AclInQuery = None, collection: InQuery = None, version: VersionInQuery = None,
    ) -> Response:  # fmt: skip
        """Make this the document's content. The same version with the same content again changes nothing; a version that is not the newest
        is accepted, and ends superseded. Where the Content-Type is not JSON, the body is the content itself, and the query says the rest."""
        if not is_json(media_type(request)):
            async with admission.body(request, max_document_bytes) as raw:
                return await _accept(receiver, caller.tenant_id, of_bytes(request, DocumentId(document_id), raw))
        check_query(request, ())
        async with admission.body(request, most_bytes) as raw:
            incoming = of_body(DocumentId(document_id), validated(LinkedBody, await off_loop(parsed, raw)))
            check_content(receiver, [incoming], [("url",)], max_document_bytes)
            check_urls(receiver, caller.tenant_id, [incoming], [("url",)])
            return await _accept(receiver, caller.tenant_id, incoming)

    @router.post(
        "/v1/documents",
        name="post_document",
        status_code=202,
        responses=accepted(AcceptedDocument, *REFUSALS),
        openapi_extra=described(("application/json", NewDocument), (FORM, _FORM), *_BYTES),
    )
    async def post(
        request: Request, caller: Writer, document_id: InQuery = None, title: InQuery = None, uri: InQuery = None, metadata: MetadataInQuery = None,
        acl: AclInQuery = None, collection: InQuery = None, version: VersionInQuery = None,
    ) -> Response:  # fmt: skip
        """Take a document: as JSON, as a form with a part `file`, or as its bytes with the rest in the query. One without an id gets a new one."""
        media = media_type(request)
        is_raw = not is_json(media) and media != FORM
        check_query(request, ("document_id", *UPLOADED) if is_raw else ())
        if not is_json(media):
            check_origin(request)
        async with admission.body(request, max_document_bytes if is_raw else most_bytes) as raw:
            if is_raw:
                named = validated(NewDocument, {"text": "", "document_id": document_id}).document_id
                incoming = of_bytes(request, DocumentId(named or new_id("")), raw)
            else:
                incoming = await off_loop(of_new, raw) if is_json(media) else of_form(request, raw)
            check_content(receiver, [incoming], [("url",)], max_document_bytes)
            check_urls(receiver, caller.tenant_id, [incoming], [("url",)])
            return await _accept(receiver, caller.tenant_id, incoming)

    @router.patch(
        _DOCUMENT,
        name="patch_document",
        status_code=202,
        responses=accepted(AcceptedDocument, *REFUSALS, 404),
        openapi_extra=described(("application/merge-patch+json", PatchBody), ("application/json", PatchBody)),
    )
    async def change(request: Request, document_id: Name, caller: Writer) -> Response:
        """Change what the document carries besides its content: its title, URI, metadata, rights, collection. Metadata are merged (RFC 7396), and what
        is not named stays. It becomes a new version, built on the newest that was accepted, and embeds nothing. New rights hold with the answer."""
        require_json(request)
        async with admission.body(request, PATCH_BYTES) as raw:
            body = validated(PatchBody, parsed(raw))
            if not body.model_fields_set:
                raise refused(("body",), f"name what changes: {', '.join(FIELDS)}")
            patch = body.model_dump(include=body.model_fields_set)
            return Json(await receiver.patch(caller.tenant_id, DocumentId(document_id), patch), 202)

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


async def _accept(receiver: Receiver, tenant_id: TenantId, incoming: Incoming) -> Response:
    [done] = await receiver.accept(tenant_id, _SENDER, [incoming])
    return Json(done, 202)
