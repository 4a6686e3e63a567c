"""Liveness, readiness and metrics. They need no API key and show no data of a tenant."""

from __future__ import annotations

import asyncio
import logging

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import PlainTextResponse, Response

from livedex.pipeline.api.health_audience import component_kinds, may_see_reasons, redact_reasons
from livedex.pipeline.api.schemas import Alive, Readiness, ok_response
from livedex.pipeline.api.services import ApiServices, Services
from livedex.pipeline.errors import OutageError, RetryableError
from livedex.pipeline.events.consumer_lag import StageLag
from livedex.pipeline.events.notifications import NOTIFY_STAGE
from livedex.pipeline.http.answers import JsonResponse

router = APIRouter(tags=["operation"])
log = logging.getLogger(__name__)

_PATIENCE_S = 3.0
_FOR_READS = frozenset({"database"})
_FOR_CHANGES = frozenset({"database", "broker"})
_PARTITIONS = "broker:partitions"
_SUBSCRIBER, _SOURCE = "subscriber:", "source:"  # names and paths are shown only to administrators


@router.get(
    "/healthz",
    name="get_health",
    responses={
        **ok_response(Alive, "The process makes progress"),
        503: {"model": Alive, "description": "A background task is stalled: restart the process"},
    },
)
async def alive(request: Request, services: Services) -> Response:
    """Report whether the process and its background tasks make progress.

    The outage of a dependency does not make it `stalled`.
    """
    problems = services.liveness.problems
    if not problems:
        return JsonResponse({"status": "ok", "reasons": []})
    reasons = (
        problems.values() if await may_see_reasons(request, services) else component_kinds(problems)
    )
    return JsonResponse({"status": "stalled", "reasons": list(reasons)}, 503)


@router.get(
    "/readyz",
    name="get_readiness",
    responses={
        **ok_response(Readiness, "Able to serve"),
        503: {"model": Readiness, "description": "Not able to serve"},
    },
)
async def ready(request: Request, services: Services) -> Response:
    """Report whether this process can serve searches or, if it only accepts changes, changes.

    Other unavailable components are listed as `degraded`. Callers with the scope `admin`, and every
    caller if no credentials are needed, see the reasons; others see `unavailable`.
    """
    audience = asyncio.create_task(may_see_reasons(request, services))
    unreadable = None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            health = await services.operations.health()
        down = {component: h.detail or "down" for component, h in health.items() if h.state != "ok"}
    except (RetryableError, TimeoutError) as exc:
        unreadable = (
            (exc.cause if exc.cause != str(exc) else "does not answer")
            if isinstance(exc, OutageError)
            else f"no answer within {_PATIENCE_S:g} s"
        )
        down = {"database": unreadable}
    down |= services.health.down
    needed = (_FOR_READS if unreadable else frozenset()) if services.reads else _FOR_CHANGES
    offline = down.pop(_PARTITIONS, None)
    unmet = {component: reason for component, reason in down.items() if component in needed}
    degraded = {
        component: reason
        for component, reason in down.items()
        if component not in needed and not component.startswith((_SUBSCRIBER, _SOURCE))
    }
    if offline and "broker" not in down:
        # the process still accepts changes for other partitions: it stays ready
        degraded["broker"] = offline
    if untold := sum(component.startswith(_SUBSCRIBER) for component in down):
        degraded["subscribers"] = f"{untold} cannot be reached: `livedex status` shows which"
    if unread := sum(component.startswith(_SOURCE) for component in down):
        degraded["sources"] = f"{unread} not watched completely: `livedex status` shows which"
    if not await audience:
        unmet, degraded = redact_reasons(unmet), redact_reasons(degraded)
    reasons = [f"{component}: {reason}" for component, reason in unmet.items()]
    return JsonResponse(
        {"status": "unready" if unmet else "ok", "degraded": degraded, "reasons": reasons},
        503 if unmet else 200,
    )


@router.get(
    "/metrics",
    name="get_metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "In Prometheus' text format"}},
)
async def metrics(services: Services) -> Response:
    """Return the metrics of this process and the backlog of the installation."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await _measure_backlog(services)
    except (RetryableError, TimeoutError) as exc:
        log.warning("the lag in the metrics is outdated: %s", exc or type(exc).__name__)
    return Response(
        generate_latest(services.metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )


async def _measure_backlog(services: ApiServices) -> None:
    services.metrics.dead_letters.set(await services.operations.count_dead_letters())
    told = await services.operations.pending_notifications()
    for stage, backlog in {
        NOTIFY_STAGE: told or StageLag(),
        **await services.backlog.waiting(),
    }.items():
        services.metrics.stage_waiting.labels(stage).set(backlog.waiting)
        services.metrics.stage_oldest_seconds.labels(stage).set(backlog.oldest_s)
