"""Health, readiness, metrics, and the description of itself."""

import json
import logging
import re
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from livedex.pipeline.api.search import SearchRequest
from livedex.pipeline.errors import OutageError


async def test_it_is_alive_whatever_is_away(http, operations):
    operations.error = OutageError("database", "gone")
    assert (await http.get("/healthz")).status_code == 200


async def test_it_is_ready_when_nothing_is_down(http):
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ok", "degraded": {}, "reasons": []},
    )


async def test_without_the_embedder_it_is_ready_and_says_what_is_missing(http, operations):
    operations.down = {"embedder": "no answer for 30 s"}
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["degraded"]) == (
        200,
        {"embedder": "no answer for 30 s"},
    )


async def test_subscribers_that_cannot_be_told_are_counted_and_not_named_to_everybody(
    http, operations
):
    operations.down = {
        "subscriber:acme's shop": "shop.acme.example answered with HTTP 410",
        "subscriber:other": "away",
        "embedder": "away",
    }
    answer = await http.get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["degraded"]["subscribers"].startswith("2 cannot be reached")
    assert set(answer.json()["degraded"]) == {"subscribers", "embedder"}
    assert "acme" not in answer.text


@pytest.mark.parametrize("component", ["database", "broker"])
async def test_where_searches_are_served_it_is_ready_while_they_are_answered(
    http, operations, component
):
    operations.down = {component: "its disk is full"}
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ok", "degraded": {component: "its disk is full"}, "reasons": []},
    )


@pytest.mark.parametrize("component", ["database", "broker"])
async def test_where_only_changes_are_taken_it_is_ready_while_they_are(
    app, http, operations, component
):
    app.state.services = replace(app.state.services, reads=False)
    operations.down = {component: "gone"}
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, [f"{component}: gone"])


async def test_what_this_process_knows_counts_before_the_copy_in_the_database(
    app, http, operations
):
    app.state.services.health("database", "it is read-only")
    operations.down = {"database": "an older word", "embedder": "away"}
    assert (await http.get("/readyz")).json()["degraded"] == {
        "database": "it is read-only",
        "embedder": "away",
    }
    app.state.services.health("database", None)
    operations.down = {}
    assert (await http.get("/readyz")).json()["degraded"] == {}


async def test_it_is_not_ready_when_the_database_does_not_answer(http, operations):
    operations.error = OutageError("database", "connect to 10.0.0.7: refused")
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert "database" in answer.json()["reasons"][0]
    assert "10.0.0.7" not in answer.text


def value(text: str, name: str, **labels: str) -> float:
    """A sample of Prometheus' text."""
    return next(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


async def test_the_metrics_tell_the_backlog_of_now(http, operations):
    operations.events = 3
    text = (await http.get("/metrics")).text
    assert value(text, "livedex_stage_waiting", stage="embed") == 3
    assert value(text, "livedex_stage_oldest_seconds", stage="embed") == 1.5
    assert value(text, "livedex_stage_waiting", stage="notify") == 3
    assert value(text, "livedex_stage_oldest_seconds", stage="notify") == 2.5
    assert value(text, "livedex_dead_letters") == 4
    operations.events = 0
    assert value((await http.get("/metrics")).text, "livedex_stage_waiting", stage="embed") == 0


async def test_the_metrics_are_told_with_the_database_away(http, operations):
    operations.error = OutageError("database", "gone")
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    assert "livedex_search_seconds" in answer.text


async def test_the_metrics_do_not_grow_with_what_is_asked(http, engine):
    async def lines() -> int:
        return len((await http.get("/metrics")).text.splitlines())

    async def ask(n: int) -> None:
        engine.error = RuntimeError(f"text {n}") if n % 2 else OutageError("embedder", f"text {n}")
        await http.post(
            "/v1/search", json={"query": f"question {n}", "document_ids": [f"docs/{n}"]}
        )
        for path in (
            f"/v1/documents/docs/none-{n}",
            f"/nowhere/{n}",
            f"/v1/sync/{n}",
            f"/v1/collections/{n}",
        ):
            await http.get(path)

    for n in (-2, -1):  # each call and status is counted from its first request on
        await ask(n)
    await lines()
    before = await lines()
    for n in range(100):
        await ask(n)
    assert await lines() == before


async def test_it_describes_every_call_with_its_answers_and_problems(http):
    described = (await http.get("/openapi.json")).json()
    assert described["openapi"].startswith("3.")
    calls = {
        f"{method} {path}": call
        for path, methods in described["paths"].items()
        for method, call in methods.items()
    }
    assert set(calls) == {
        "post /v1/ask",
        "post /v1/search",
        "post /v1/embeddings",
        "get /v1/documents",
        "get /v1/documents/{document_id}",
        "get /v1/documents/{document_id}/chunks",
        "get /v1/collections",
        "post /v1/collections",
        "get /v1/collections/{name}",
        "delete /v1/collections/{name}",
        "get /v1/sync/{token}",
        "get /v1/status",
        "get /v1/sources",
        "get /v1/settings",
        "get /v1/cost",
        "get /v1/dead",
        "get /v1/dead/{letter_id}",
        "post /v1/dead/{letter_id}/replay",
        "delete /v1/dead/{letter_id}",
        "get /v1/keys",
        "post /v1/keys",
        "delete /v1/keys/{key_id}",
        "get /v1/subscribers",
        "post /v1/subscribers",
        "delete /v1/subscribers/{name}",
        "post /v1/subscribers/{name}/resume",
        "get /healthz",
        "get /readyz",
        "get /metrics",
    }
    for name, call in calls.items():
        if "/v1/" in name:
            refusals = [
                answer["content"]
                for status, answer in call["responses"].items()
                if not status.startswith("2")
            ]
            assert all(set(content) == {"application/problem+json"} for content in refusals), name
            assert refusals, name
            [answered] = [
                answer.get("content", {})
                for status, answer in call["responses"].items()
                if status.startswith("2")
            ]
            assert "application/json" in answered or "204" in call["responses"], name
    fields = described["components"]["schemas"]["SearchRequest"]["properties"]
    assert {"query", "limit", "mode", "where", "after"} <= set(fields)
    assert [p["name"] for p in calls["get /v1/documents/{document_id}"]["parameters"]] == [
        "document_id",
        "principals",
    ]


async def test_the_description_says_no_more_of_a_query_than_a_query_can_say(http):
    calls = [
        call
        for calls in (await http.get("/openapi.json")).json()["paths"].values()
        for call in calls.values()
    ]
    parameters = {p["name"]: p["schema"] for call in calls for p in call.get("parameters", ())}
    assert "null" not in json.dumps(parameters)
    assert (parameters["principals"]["type"], parameters["principals"]["maxItems"]) == (
        "array",
        1000,
    )
    assert (parameters["limit"]["minimum"], parameters["limit"]["maximum"]) == (1, 1000)


async def test_bodies_are_described_as_they_are_taken(http):
    schemas = (await http.get("/openapi.json")).json()["components"]["schemas"]
    search = schemas["SearchRequest"]["properties"]
    one, several, none = search["collection"]["anyOf"]
    assert (one["type"], several["type"], several["maxItems"], none["type"]) == (
        "string",
        "array",
        1000,
        "null",
    )
    assert search["principals"]["anyOf"][0]["maxItems"] == 1000
    assert isinstance(search["limit"]["maximum"], int)
    assert schemas["Document"]["properties"]["version"]["anyOf"][0]["format"] == "int64"
    assert all(
        SearchRequest.model_validate(example) for example in schemas["SearchRequest"]["examples"]
    )


async def test_every_answer_is_described_with_its_headers(http):
    described = (await http.get("/openapi.json")).json()
    for path, calls in described["paths"].items():
        for call in calls.values():
            for status, answer in call["responses"].items():
                named = {
                    header["$ref"].removeprefix("#/components/headers/")
                    for header in answer["headers"].values()
                }
                assert named == set(answer["headers"]) <= set(described["components"]["headers"])
                assert "X-Request-ID" in named
                assert ("Retry-After" in named) == (
                    status in ("429", "503") and path.startswith("/v1/")
                ), (path, status)
                assert ("WWW-Authenticate" in named) == (status == "401")


async def test_clients_find_a_name_for_every_call_and_every_body(http):
    described = (await http.get("/openapi.json")).json()
    calls = [call for calls in described["paths"].values() for call in calls.values()]
    names = [call["operationId"] for call in calls]
    assert len(set(names)) == len(names) and {
        "search",
        "list_documents",
        "get_chunks",
        "create_collection",
    } <= set(names)
    for call in calls:
        for body in call.get("requestBody", {}).get("content", {}).values():
            assert set(body["schema"]) == {"$ref"}


async def test_every_reference_in_the_description_leads_somewhere(http):
    text = (await http.get("/openapi.json")).text
    references = set(re.findall(r'"\$ref":"#/components/schemas/([^"]+)"', text))
    assert references
    assert references <= set(json.loads(text)["components"]["schemas"])


async def test_the_page_fetches_nothing_from_elsewhere(http):
    answer = await http.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_the_address_itself_leads_to_the_page(http):
    answer = await http.get("/")
    assert answer.status_code == 307
    assert str(answer.url.join(answer.headers["location"])).endswith("/docs")


async def test_a_line_in_the_log_holds_no_raw_control_character(http, caplog):
    with caplog.at_level(logging.DEBUG, logger="livedex.pipeline.http"):
        await http.get("/v1/documents/a%0Ab%1B%00?query=%0A")
    lines = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith("livedex.pipeline.http")
    ]
    assert lines
    assert all(line.isprintable() for line in lines)


async def test_a_process_whose_work_stands_still_is_not_alive(app, http):
    problem = ["chunk has not polled Kafka for 200 s"]
    app.state.services.liveness.watch(lambda: problem[0])
    answer = await http.get("/healthz")
    assert (answer.status_code, answer.json()) == (
        503,
        {"status": "stalled", "reasons": ["chunk has not polled Kafka for 200 s"]},
    )
    problem[0] = None
    assert (await http.get("/healthz")).json() == {"status": "ok", "reasons": []}
