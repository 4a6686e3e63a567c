"""POST /v1/search."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from pipeline.api.answers import Json
from pipeline.api.bodies import StrictRoute
from pipeline.api.problems import invalid
from pipeline.api.services import Services, Tenant, Waiting
from pipeline.api.shapes import Hits, answers, problems
from pipeline.api.tokens import read_token
from pipeline.errors import NotFoundError
from pipeline.search.request import SearchRequest

router = APIRouter(route_class=StrictRoute, tags=["search"])


@router.post("/v1/search", responses={**answers(Hits, "The hits, best first"), **problems(401, 403, 413, 415, 422, 429, 503)})
async def search(request: SearchRequest, tenant: Tenant, services: Services, waiting: Waiting) -> Response:
    """Search by meaning, by keywords, or both.

    With `after`, the search waits up to `wait_s` seconds until that change has ended, and then answers in any case.
    """
    if request.after is not None:
        try:
            document_id, version = read_token(tenant, request.after)
        except NotFoundError as exc:
            return invalid([{"loc": ("after",), "msg": str(exc)}])
        await waiting.wait(tenant, document_id, version, request.wait_s)
    return Json(await services.engine.search(tenant, request))
