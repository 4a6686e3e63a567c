"""GET /v1/documents, and one document with its chunks."""

from __future__ import annotations

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from livedex.pipeline.api.schemas import Chunks, Document, DocumentPage, ok_response
from livedex.pipeline.api.services import PageParameters, RequestReader, Services, require_found
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses
from livedex.pipeline.http.request_path import PATH_REMAINDER, last_segment, path_after
from livedex.pipeline.model import DocumentId, DocumentState

router = APIRouter(tags=["documents"])

_PREFIX = "/v1/documents/"
_DOCUMENT = f"{_PREFIX}{{document_id:{PATH_REMAINDER}}}"
_CHUNKS = "/chunks"
_NOT_FOUND = "the document does not exist, was deleted, or is not visible to the caller"


@router.get(
    "/v1/documents",
    name="list_documents",
    responses={**ok_response(DocumentPage, "A page"), **problem_responses(401, 403, 422, 429, 503)},
)
async def page(
    reader: RequestReader,
    services: Services,
    requested: PageParameters,
    collection: str | None = None,
    source: str | None = None,
    state: Annotated[
        DocumentState | None, Query(description=f"one of {', '.join(get_args(DocumentState))}")
    ] = None,
    prefix: Annotated[
        str, Query(max_length=1024, description="beginning of the ids, such as `handbook/`")
    ] = "",
) -> Response:
    """List the documents in the order of their ids, page by page."""
    documents, next_cursor = await services.documents.page(
        reader,
        collection=collection,
        source=source,
        state=state,
        prefix=prefix,
        limit=requested.limit,
        cursor=requested.cursor,
    )
    return JsonResponse({"documents": documents, "next_cursor": next_cursor})


@router.get(
    _DOCUMENT + _CHUNKS,
    name="get_chunks",
    responses={
        **ok_response(Chunks | Document, "The chunks, or the document whose id is the whole path"),
        **problem_responses(401, 403, 404, 422, 429, 503),
    },
)
async def chunks(
    request: Request, document_id: str, reader: RequestReader, services: Services
) -> Response:
    """Return the chunks of a document in order.

    If a document's id is the whole path, that document is returned instead. To ask only for that
    document, escape the last slash, as in `a%2Fchunks`.
    """
    whole = path_after(request, _PREFIX)
    document = await services.documents.get(reader, DocumentId(whole))
    if document is not None:
        return JsonResponse(document)
    asked = whole == document_id + _CHUNKS and last_segment(request) == _CHUNKS
    found = await services.documents.chunks(reader, DocumentId(document_id)) if asked else None
    return JsonResponse(require_found(found, _NOT_FOUND))


@router.get(
    _DOCUMENT,
    name="get_document",
    responses={
        **ok_response(Document, "The document"),
        **problem_responses(401, 403, 404, 422, 429, 503),
    },
)
async def document(document_id: str, reader: RequestReader, services: Services) -> Response:
    """Return a document's state, version and times. Slashes in the id may be percent-encoded."""
    found = await services.documents.get(reader, DocumentId(document_id))
    return JsonResponse(require_found(found, _NOT_FOUND))
