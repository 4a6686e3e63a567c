"""POST /v1/search."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import ConfigDict, Field
from starlette.responses import Response

from livedex.pipeline.acl import Principals
from livedex.pipeline.api.schemas import Hits, ok_response
from livedex.pipeline.api.services import SearchCaller, Services, StatusWaiter
from livedex.pipeline.errors import NotFoundError
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.bodies import StrictRoute
from livedex.pipeline.http.problems import problem_responses, validation_problem
from livedex.pipeline.ingest.sync_token import read_sync_token
from livedex.pipeline.search.request import SearchRequest as Search

router = APIRouter(route_class=StrictRoute, tags=["search"])


_EXAMPLE: dict[str, Any] = {
    "query": "how long may a parcel be returned",
    "limit": 3,
    "where": {"kind": "policy", "year": {"gte": 2024}},
}


class SearchRequest(Search):
    """A search, optionally on behalf of principals."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    principals: Principals | None = Field(
        default=None,
        description="principals to search as; needs a credential with the scope `act_as`; an "
        "empty list searches as no principal",
    )


@router.post(
    "/v1/search",
    name="search",
    responses={
        **ok_response(Hits, "The hits, best first"),
        **problem_responses(401, 403, 413, 415, 422, 429, 503),
    },
)
async def search(
    request: SearchRequest, caller: SearchCaller, services: Services, waiting: StatusWaiter
) -> Response:
    """Search the documents that the caller may read, by meaning, by keywords, or both.

    During the initial load of the watched folders, `indexing` reports its progress, and hits may
    be missing.

    With `after`, the search waits up to `wait_s` seconds until that change is processed. It
    returns results even if the wait runs out.
    """
    reader = caller.reader(request.principals)
    if request.after is not None:
        try:
            document_id, version = read_sync_token(caller.tenant_id, request.after)
        except NotFoundError as exc:
            return validation_problem([{"loc": ("after",), "msg": str(exc)}])
        await waiting.wait(caller.status_reader(reader), document_id, version, request.wait_s)
    answer, indexing = await services.engine.search(reader, request), services.first_load.shown()
    content = answer.as_object()
    return JsonResponse(content if indexing is None else content | {"indexing": indexing})
