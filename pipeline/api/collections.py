"""Collections: list, create, read and delete."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.functional_validators import AfterValidator
from starlette.responses import Response

from livedex.pipeline.api.schemas import Collection, Collections, DeletedCollection, ok_response
from livedex.pipeline.api.services import (
    ApiServices,
    DocumentWriter,
    RequestReader,
    Services,
    require_found,
)
from livedex.pipeline.events.event import Changed
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses
from livedex.pipeline.http.request_path import PATH_REMAINDER
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import NO_NUL_PATTERN, Reader, TenantId
from livedex.pipeline.store.documents.version_allocator import VERSION_LIMIT

router = APIRouter(tags=["collections"])
write_router = APIRouter(route_class=StrictRoute, tags=["collections"])

_COLLECTION = f"/v1/collections/{{name:{PATH_REMAINDER}}}"
_NOT_FOUND = "the collection does not exist"
_AT_ONCE = 500  # deletes published together


def _storable(name: str) -> str:
    if "\x00" in name:
        raise ValueError("a name cannot contain NUL")
    return name


class NewCollection(BaseModel):
    """A collection to be created."""

    model_config = ConfigDict(extra="forbid")

    name: Annotated[
        str,
        Field(min_length=1, max_length=200, json_schema_extra={"pattern": NO_NUL_PATTERN}),
        AfterValidator(_storable),
    ]


@router.get(
    "/v1/collections",
    name="list_collections",
    responses={
        **ok_response(Collections, "Every collection"),
        **problem_responses(401, 403, 422, 429, 503),
    },
)
async def collections(reader: RequestReader, services: Services) -> Response:
    """List the collections by name, with the number of documents the caller may read."""
    return JsonResponse({"collections": await services.documents.collections(reader)})


@write_router.post(
    "/v1/collections",
    name="create_collection",
    status_code=201,
    responses={
        201: {"model": Collection, "description": "The new collection"},
        **problem_responses(401, 403, 409, 413, 415, 422, 429, 503),
    },
)
async def create(wanted: NewCollection, caller: DocumentWriter, services: Services) -> Response:
    """Create an empty collection. Writing a first document also creates its collection."""
    return JsonResponse(await services.collections.create(caller.tenant_id, wanted.name), 201)


@router.get(
    _COLLECTION,
    name="get_collection",
    responses={
        **ok_response(Collection, "The collection"),
        **problem_responses(401, 403, 404, 422, 429, 503),
    },
)
async def collection(name: str, reader: RequestReader, services: Services) -> Response:
    """Return a collection, with the number of documents the caller may read."""
    found = await services.documents.collection(reader, name)
    return JsonResponse(require_found(found, _NOT_FOUND))


@router.delete(
    _COLLECTION,
    name="delete_collection",
    status_code=202,
    responses={
        202: {"model": DeletedCollection, "description": "Its documents are being deleted"},
        **problem_responses(401, 403, 404, 422, 429, 503),
    },
)
async def delete(name: str, caller: DocumentWriter, services: Services) -> Response:
    """Delete a collection with all of its documents, which go through the pipeline one by one.

    A 503 can leave documents undeleted: repeat the request.
    """
    require_found(await services.documents.collection(Reader(caller.tenant_id), name), _NOT_FOUND)
    deleted = await _delete_documents(services, caller.tenant_id, name)
    await services.collections.remove(caller.tenant_id, name)
    return JsonResponse({"name": name, "documents": deleted}, 202)


async def _delete_documents(services: ApiServices, tenant_id: TenantId, name: str) -> int:
    """Publish a delete for each document of a collection, and return their number."""
    deleted, above = 0, ""
    while members := await services.collections.members(tenant_id, name, above, _AT_ONCE):
        await services.intake.accept(
            [
                Change(
                    Changed(
                        tenant_id=tenant_id,
                        document_id=member.document_id,
                        version=_delete_version(member.newest),
                        deleted=True,
                    )
                )
                for member in members
            ]
        )
        deleted, above = deleted + len(members), members[-1].document_id
    return deleted


def _delete_version(newest: int) -> int:
    """Return the version of a delete for a document with this version. At the greatest possible
    version, the delete has an equal version, which beats content.
    """
    return min(max(time.time_ns(), newest + 1), VERSION_LIMIT - 1)
