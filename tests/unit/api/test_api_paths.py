"""Paths: every document id reaches its document, and nothing that is no id reaches any."""

from typing import Any
from urllib.parse import quote, unquote

import orjson
import pytest
from fastapi import FastAPI

IDS = [
    "plain",
    "docs/policies/refunds.md",
    "with a space.md",
    " around ",
    'it\'s "quoted"',
    "100% sure.md",
    "%2e%2e%2fescaped.md",
    "a%2Fb",
    "issue #12",
    "really?",
    "a&b=c;d+e,f",
    "back\\slash",
    "{document_id}",
    "日本語/文書.md",
    "line\nbreak",
    "ends in a line break\n",
    "tab\there",
    "bell\x07",
    "\x7f",
    "a//b",
    "/leading",
    "trailing/",
    "../up",
    "a/../b",
    "a/./b",
    ".",
    "..",
    "chunks",
    "a/chunks\n",
    "http://example.org/a?b#c",
    "🦊",
    "Zoe\u0308",
    "n" * 2000,
]


async def get(app: FastAPI, raw_path: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of a GET of exactly these bytes, as a server hands them in; HTTP clients
    tidy up paths with dots.
    """
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "server": ("livedex", 80),
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return sent[0]["status"], orjson.loads(
        b"".join(message.get("body", b"") for message in sent[1:])
    )


@pytest.mark.parametrize("document_id", IDS, ids=ascii)
@pytest.mark.parametrize("safe", ["/", ""], ids=["slashes", "escaped"])
async def test_a_document_is_read_by_its_id_and_its_chunks_too(app, documents, document_id, safe):
    documents.known = {document_id}
    path = b"/v1/documents/" + quote(document_id, safe=safe).encode()
    for tail, field in ((b"", "state"), (b"/chunks", "chunks")):
        status, body = await get(app, path + tail)
        assert (status, body.get("document_id")) == (200, document_id)
        assert field in body


async def test_a_document_with_the_whole_path_as_its_id_is_the_one_meant(http, documents):
    documents.known = {"docs/a", "docs/a/chunks"}
    answer = await http.get("/v1/documents/docs/a/chunks")
    assert (answer.json()["document_id"], "chunks" in answer.json()) == ("docs/a/chunks", False)
    answer = await http.get("/v1/documents/docs/a/chunks/chunks")
    assert (answer.json()["document_id"], "chunks" in answer.json()) == ("docs/a/chunks", True)


async def test_an_escaped_last_slash_is_a_part_of_the_id(http, documents, problem_of):
    documents.known = {"docs/a"}
    for path in ("docs/a/chunks", "docs%2Fa/chunks", "docs/a/%63hunks"):
        assert "chunks" in (await http.get(f"/v1/documents/{path}")).json()
    for path in ("docs/a%2Fchunks", "docs%2fa%2fchunks"):
        problem_of(await http.get(f"/v1/documents/{path}"), 404)
    documents.known = {"docs/a", "docs/a/chunks"}
    assert (await http.get("/v1/documents/docs%2Fa%2Fchunks")).json()[
        "document_id"
    ] == "docs/a/chunks"


async def test_an_escape_is_read_once(http, documents):
    documents.known = {"a%2Fb"}
    assert (await http.get("/v1/documents/a%252Fb")).status_code == 200
    assert (await http.get("/v1/documents/a%2Fb")).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/v1/documents/%FF",
        "/v1/documents/%C3",
        "/v1/documents/%ED%A0%80/chunks",
        "/v1/collections/%FF",
        "/%FF",
    ],
)
async def test_bytes_that_are_no_utf8_name_nothing_not_even_what_they_resemble(
    http, documents, problem_of, path
):
    documents.known = {"\ufffd"}
    problem_of(await http.get(path), 404)
    assert documents.asked == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/documents/none",
        "/v1/documents/none/chunks",
        "/v1/documents/",
        "/v1/documents//chunks",
        "/v1/documents/%ZZ",
        f"/v1/documents/{'x' * 5000}",
        "/nothing",
        "/v1",
        "/v1/nowhere",
        "/v1/search/",
        "/V1/documents",
        "/v1/collections/none",
        "/v1/collections/",
        "/v1/sync/nonsense",
        "/v1/sync/",
        f"/v1/sync/{'A' * 30_000}",
        "/v1/sync/%00",
        "/healthz/",
        "/redoc",
    ],
    ids=lambda path: path[:40],
)
async def test_what_is_not_there_is_a_problem(http, problem_of, path):
    problem_of(await http.get(path), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/documents",
        "/v1/documents/a",
        "/docs",
        "/openapi.json",
    ],
)
async def test_head_answers_as_get_does(http, path):
    answer, asked = await http.head(path), await http.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (
        asked.status_code,
        asked.headers["content-type"],
    )
    options = await http.options(path)
    assert (options.status_code, options.headers["allow"], options.content) == (
        204,
        "GET, HEAD, OPTIONS",
        b"",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/search"),
        ("DELETE", "/v1/search"),
        ("POST", "/v1/documents/a"),
        ("PATCH", "/v1/documents"),
        ("PUT", "/v1/collections"),
        ("POST", "/healthz"),
        ("BREW", "/v1/search"),
        ("TRACE", "/v1/documents/a"),
        ("POST", "/openapi.json"),
        ("DELETE", "/docs"),
        ("QUERY", "/v1/sync/t"),
    ],
)
async def test_the_wrong_method_is_a_problem_that_names_the_right_ones(
    http, problem_of, method, path
):
    answer = await http.request(method, path)
    problem_of(answer, 405)
    taken = {
        tried
        for tried in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH")
        if (await http.request(tried, path)).status_code != 405
    }
    assert set(answer.headers["allow"].split(", ")) == taken != set()


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=many",
        "limit=1.5",
        "limit=",
        "state=lost",
        "state=%00",
    ],
)
async def test_a_page_without_sense_is_refused(http, problem_of, query):
    problem_of(await http.get(f"/v1/documents?{query}"), 422)


@pytest.mark.parametrize("wait_s", ["-1", "31", "nan", "inf", "long", ""])
async def test_a_wait_without_sense_is_refused(http, problem_of, wait_s):
    problem_of(await http.get(f"/v1/sync/token?wait_s={wait_s}"), 422)


async def test_every_answer_has_a_request_id_of_its_own(http):
    answers = [
        await http.get(path)
        for path in ("/healthz", "/healthz", "/nowhere", "/v1/documents/%FF", "/v1/search")
    ]
    answers.append(await http.post("/v1/search", content=b"{"))
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)


async def test_every_call_of_the_description_is_in_what_its_address_takes_and_no_other_is(
    app, http, problem_of
):
    for path, calls in app.openapi()["paths"].items():
        declared = {method.upper() for method in calls}
        options = await http.options(
            path.format(document_id="a", name="b", token="t", letter_id="l", key_id="k")
        )
        assert options.status_code == 204
        assert set(options.headers["allow"].split(", ")) == declared | {"OPTIONS"} | (
            {"HEAD"} if "GET" in declared else set()
        ), path
    problem_of(await http.options("/nowhere"), 404)
