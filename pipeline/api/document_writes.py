"""PUT, PATCH and DELETE /v1/documents/{document_id}, and POST /v1/documents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from livedex.pipeline.api.document_uploads import (
    FORM_MEDIA_TYPE,
    NewDocument,
    check_query_names,
    generate_document_id,
    reject_cross_site,
    request_from_body,
    request_from_bytes,
    request_from_form,
    request_from_json,
)
from livedex.pipeline.api.document_uploads import UPLOAD_FIELDS as UPLOADED
from livedex.pipeline.api.events import check_contents, check_urls
from livedex.pipeline.api.openapi import request_body_schema
from livedex.pipeline.api.schemas import WRITE_ERROR_STATUSES, AcceptedDocument, accepted_responses
from livedex.pipeline.api.services import DocumentWriter
from livedex.pipeline.events.merge_patch import PATCH_FIELDS
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import is_json, media_type, require_json
from livedex.pipeline.http.body_budget import BodyBudget
from livedex.pipeline.http.request_path import PATH_REMAINDER
from livedex.pipeline.http.validation import (
    InvalidFieldError,
    parse_json,
    parse_off_loop,
    validate_model,
)
from livedex.pipeline.ingest.change_request import (
    ChangeRequest,
    DocumentBody,
    DocumentIdField,
    LinkedBody,
    PatchBody,
    VersionField,
)
from livedex.pipeline.ingest.request_ingester import RequestIngester
from livedex.pipeline.model import DocumentId, TenantId

_DOCUMENT = f"/v1/documents/{{document_id:{PATH_REMAINDER}}}"
_SENDER = "documents"
PATCH_BYTES = 1_048_576
_BINARY: dict[str, Any] = {
    "type": "string",
    "format": "binary",
    "description": "the content, of the format in its Content-Type",
}
_BINARY_BODIES = tuple(
    (media, _BINARY) for media in ("text/markdown", "text/plain", "application/octet-stream")
)
_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {
        "file": {"type": "string", "format": "binary"},
        "acl": {"type": "array", "items": {"type": "string"}},
        "metadata": {"type": "string", "description": "a JSON object"},
        **{
            name: {"type": "string"}
            for name in ("document_id", "mime_type", "title", "uri", "collection", "version")
        },
    },
}

RawBodyQuery = Annotated[str | None, Query(description="only if the body is the raw content")]
MetadataInQuery = Annotated[
    str | None, Query(description="a JSON object; only if the body is the raw content")
]
AclInQuery = Annotated[
    list[str] | None,
    Query(description="only if the body is the raw content; if empty, no principal may read it"),
]
VersionInQuery = Annotated[
    str | None, Query(description="only if the body is the raw content", pattern=r"^[0-9]{1,19}$")
]

Name = Annotated[
    DocumentIdField,
    Path(description="id of the document; slashes may be percent-encoded"),
]


def documents_router(
    receiver: RequestIngester, admission: BodyBudget, *, most_bytes: int, max_document_bytes: int
) -> APIRouter:
    """Return the routes that accept one document.

    Args:
        receiver: accepts the changes.
        admission: limits the memory for bodies.
        most_bytes: maximum size of a body.
        max_document_bytes: maximum size of the document in it.
    """
    router = APIRouter(tags=["documents"])

    @router.put(
        _DOCUMENT,
        name="put_document",
        status_code=202,
        responses=accepted_responses(AcceptedDocument, *WRITE_ERROR_STATUSES, 404),
        openapi_extra=request_body_schema(
            ("application/json", DocumentBody if receiver.fetcher is None else LinkedBody),
            *_BINARY_BODIES,
        ),
        dependencies=[Depends(_upload_fields)],
    )
    async def put(request: Request, document_id: Name, caller: DocumentWriter) -> Response:
        """Create a document or replace its content.

        Repeating a version with the same content changes nothing. A version that is not the newest
        is accepted and ends as `superseded`. If the Content-Type is not JSON, the body is the raw
        content, and query parameters hold the other fields.
        """
        if not is_json(media_type(request)):
            async with admission.body(request, max_document_bytes) as raw:
                return await _accept(
                    receiver,
                    caller.tenant_id,
                    request_from_bytes(request, DocumentId(document_id), raw),
                )
        check_query_names(request, ())
        async with admission.body(request, most_bytes) as raw:
            incoming = request_from_body(
                DocumentId(document_id),
                validate_model(LinkedBody, await parse_off_loop(parse_json, raw)),
            )
            check_contents(receiver, [incoming], [("url",)], max_document_bytes)
            check_urls(receiver, caller.tenant_id, [incoming], [("url",)])
            return await _accept(receiver, caller.tenant_id, incoming)

    @router.post(
        "/v1/documents",
        name="post_document",
        status_code=202,
        responses=accepted_responses(AcceptedDocument, *WRITE_ERROR_STATUSES),
        openapi_extra=request_body_schema(
            ("application/json", NewDocument), (FORM_MEDIA_TYPE, _FORM), *_BINARY_BODIES
        ),
        dependencies=[Depends(_upload_fields)],
    )
    async def post(
        request: Request, caller: DocumentWriter, document_id: RawBodyQuery = None
    ) -> Response:
        """Upload a document as JSON, as a form with a part `file`, or as raw content.

        With raw content, query parameters hold the other fields. A document without an id gets a
        new one.
        """
        media = media_type(request)
        is_raw = not is_json(media) and media != FORM_MEDIA_TYPE
        check_query_names(request, ("document_id", *UPLOADED) if is_raw else ())
        if not is_json(media):
            reject_cross_site(request)
        async with admission.body(request, max_document_bytes if is_raw else most_bytes) as raw:
            if is_raw:
                named = validate_model(
                    NewDocument, {"text": "", "document_id": document_id}
                ).document_id
                incoming = request_from_bytes(
                    request, DocumentId(named or generate_document_id("")), raw
                )
            else:
                incoming = (
                    await parse_off_loop(request_from_json, raw)
                    if is_json(media)
                    else request_from_form(request, raw)
                )
            check_contents(receiver, [incoming], [("url",)], max_document_bytes)
            check_urls(receiver, caller.tenant_id, [incoming], [("url",)])
            return await _accept(receiver, caller.tenant_id, incoming)

    @router.patch(
        _DOCUMENT,
        name="patch_document",
        status_code=202,
        responses=accepted_responses(AcceptedDocument, *WRITE_ERROR_STATUSES, 404),
        openapi_extra=request_body_schema(
            ("application/merge-patch+json", PatchBody), ("application/json", PatchBody)
        ),
    )
    async def change(request: Request, document_id: Name, caller: DocumentWriter) -> Response:
        """Change a document's title, URI, metadata, ACL or collection, but not its content.

        Metadata is merged (RFC 7396); fields that are not named stay. The change becomes a new
        version, based on the newest accepted one, and embeds nothing. A new ACL is in effect when
        the response arrives.
        """
        require_json(request)
        async with admission.body(request, PATCH_BYTES) as raw:
            patch = _read_patch(raw)
            return JsonResponse(
                await receiver.patch(caller.tenant_id, DocumentId(document_id), patch), 202
            )

    @router.delete(
        _DOCUMENT,
        name="delete_document",
        status_code=202,
        responses=accepted_responses(AcceptedDocument, 401, 403, 404, 409, 422, 429, 503),
    )
    async def delete(
        document_id: Name,
        caller: DocumentWriter,
        version: Annotated[
            VersionField | None,
            Query(description="version of the delete; default: newer than all existing versions"),
        ] = None,
    ) -> Response:
        """Delete the document.

        Deleting a document that does not exist is accepted, and blocks older versions of it.
        """
        return await _accept(
            receiver,
            caller.tenant_id,
            ChangeRequest(DocumentId(document_id), deleted=True, version=version),
        )

    return router


async def _upload_fields(
    title: RawBodyQuery = None,
    uri: RawBodyQuery = None,
    metadata: MetadataInQuery = None,
    acl: AclInQuery = None,
    collection: RawBodyQuery = None,
    version: VersionInQuery = None,
) -> None:
    """Declare the query parameters of raw content for OpenAPI; `request_from_bytes` reads them."""


def _read_patch(raw: bytes) -> dict[str, Any]:
    """Return the changed fields in the body of a patch.

    Raises:
        InvalidFieldError: the body changes no field.
    """
    body = validate_model(PatchBody, parse_json(raw))
    if not body.model_fields_set:
        raise InvalidFieldError(
            ("body",), f"the patch is empty: set one of {', '.join(PATCH_FIELDS)}"
        )
    return body.model_dump(include=body.model_fields_set)


async def _accept(
    receiver: RequestIngester, tenant_id: TenantId, incoming: ChangeRequest
) -> Response:
    [done] = await receiver.accept(tenant_id, _SENDER, [incoming])
    return JsonResponse(done, 202)
