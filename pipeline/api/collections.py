"""GET /v1/collections."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from pipeline.api.answers import Json
from pipeline.api.paths import WHOLE
from pipeline.api.services import Services, Tenant
from pipeline.api.shapes import Collection, Collections, answers, problems
from pipeline.errors import NotFoundError

router = APIRouter(tags=["collections"])


@router.get("/v1/collections", responses={**answers(Collections, "Every collection"), **problems(401, 403, 503)})
async def collections(tenant: Tenant, services: Services) -> Response:
    """Every collection by name, with the number of its documents."""
    return Json({"collections": await services.documents.collections(tenant)})


@router.get(f"/v1/collections/{{name:{WHOLE}}}", responses={**answers(Collection, "The collection"), **problems(401, 403, 404, 422, 503)})
async def collection(name: str, tenant: Tenant, services: Services) -> Response:
    """A collection, with the number of its documents."""
    found = await services.documents.collection(tenant, name)
    if found is None:
        raise NotFoundError("no collection is called so")
    return Json(found)
