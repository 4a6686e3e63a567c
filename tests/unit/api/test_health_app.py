"""The port of health alone: what everybody may know, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from livedex.pipeline.api.app import ApiServices, create_app
from livedex.pipeline.api.health_app import RejectingAuthenticator, create_health_app


@pytest.fixture
async def health(app) -> AsyncIterator[httpx.AsyncClient]:
    services: ApiServices = replace(app.state.services, tenancy=RejectingAuthenticator())
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(create_health_app(services)),
        base_url="http://pod.example:9000",
    ) as client:
        yield client


async def test_health_readiness_and_metrics_are_served(health):
    assert (await health.get("/healthz")).json() == {"status": "ok", "reasons": []}
    assert (await health.get("/readyz")).json() == {"status": "ok", "degraded": {}, "reasons": []}
    metrics = await health.get("/metrics")
    assert metrics.status_code == 200 and "livedex_events_total" in metrics.text
    paths = (await health.get("/openapi.json")).json()["paths"]
    assert {"/healthz", "/readyz", "/metrics"} <= set(paths)


async def test_partitions_without_a_leader_leave_it_ready(app, health):
    services: ApiServices = app.state.services
    services.health("broker:partitions", "2 of 6 partitions of livedex.changed have no leader")
    answer = await health.get("/readyz")
    assert answer.status_code == 200 and list(answer.json()["degraded"]) == ["broker"]
    services.health("broker", "does not answer")
    assert list((await health.get("/readyz")).json()["degraded"]) == ["broker"]


async def test_nothing_of_documents_is_served_there(app, health):
    calls = [
        (
            method.upper(),
            path.replace("{document_id}", "a").replace("{name}", "a").replace("{token}", "a"),
        )
        for path, methods in app.openapi()["paths"].items()
        if path.startswith("/v1/")
        for method in methods
    ]
    assert len(calls) > 5
    for method, path in calls:
        assert (await health.request(method, path)).status_code == 404, (method, path)


async def test_the_same_is_told_with_and_without_a_credential(health, operations):
    operations.down = {"source:secret": "the folder /srv/secret is missing", "embedder": "away"}
    bare = await health.get("/readyz")
    shown = await health.get("/readyz", headers={"Authorization": "Bearer ldx_1_x"})
    assert bare.json() == shown.json()
    assert (
        bare.json()["degraded"] == {"embedder": "unavailable", "sources": "unavailable"}
        and "secret" not in bare.text
    )


async def test_what_stands_still_is_told_whichever_app_is_asked(app, health):
    app.state.services.liveness.watch(lambda: "chunk has not polled Kafka for 200 s")
    answer = await health.get("/healthz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["work"])
    assert create_app(app.state.services) is not app
