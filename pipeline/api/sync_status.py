"""GET /v1/sync/{token}."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from livedex.pipeline.api.schemas import SyncState, answers
from livedex.pipeline.api.services import Follower, OnBehalf, Services, Waiting
from livedex.pipeline.api.sync_waiter import MAX_WAIT_S
from livedex.pipeline.http.answers import Json
from livedex.pipeline.http.problems import problems
from livedex.pipeline.ingest.sync_token import read_token

router = APIRouter(tags=["documents"])


@router.get(
    "/v1/sync/{token}",
    name="get_sync_state",
    responses={**answers(SyncState, "Its state"), **problems(401, 403, 404, 422, 429, 503)},
)
async def sync_state(
    token: str,
    caller: Follower,
    waiting: Waiting,
    services: Services,
    principals: OnBehalf = None,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="seconds to wait while it is pending")] = 0.0,
) -> Response:
    """What became of an accepted change. Whoever may neither write nor read the document is told of one that is `pending`, as of any that is not there."""
    reader = caller.reader(principals)
    document_id, version = read_token(caller.tenant_id, token)
    follower = caller.follower(reader)
    await waiting.wait(follower, document_id, version, wait_s)
    return Json(await services.documents.sync_report(follower, document_id, version))
