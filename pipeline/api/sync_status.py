"""GET /v1/sync/{token}."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from livedex.pipeline.api.schemas import SyncState, ok_response
from livedex.pipeline.api.services import PrincipalsQuery, Services, StatusCaller, StatusWaiter
from livedex.pipeline.api.sync_waiter import MAX_WAIT_S
from livedex.pipeline.http.answers import JsonResponse
from livedex.pipeline.http.problems import problem_responses
from livedex.pipeline.ingest.sync_token import read_sync_token

router = APIRouter(tags=["documents"])


@router.get(
    "/v1/sync/{token}",
    name="get_sync_state",
    responses={
        **ok_response(SyncState, "The state"),
        **problem_responses(401, 403, 404, 422, 429, 503),
    },
)
async def sync_state(
    token: str,
    caller: StatusCaller,
    waiting: StatusWaiter,
    services: Services,
    principals: PrincipalsQuery = None,
    wait_s: Annotated[
        float, Query(ge=0, le=MAX_WAIT_S, description="seconds to wait while it is pending")
    ] = 0.0,
) -> Response:
    """Return the processing state of an accepted change.

    Callers who may neither read nor write the document get `pending`, as for a document
    that does not exist.
    """
    reader = caller.reader(principals)
    document_id, version = read_sync_token(caller.tenant_id, token)
    follower = caller.status_reader(reader)
    await waiting.wait(follower, document_id, version, wait_s)
    return JsonResponse(await services.documents.sync_report(follower, document_id, version))
