"""Collections over HTTP: made, looked at, and deleted with their documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from livedex.pipeline.errors import OutageError
from livedex.pipeline.ingest.ingester import Change
from livedex.pipeline.model import Reader
from livedex.pipeline.store.database import Database
from tests.support.builders.document_states import DocumentBuilder
from tests.support.http.app_client import asgi_client
from tests.support.http.keyed_api import authenticated_api


class Accepted:
    """Keeps the changes; the first `outages` calls are refused."""

    def __init__(self, outages: int = 0) -> None:
        self.changes: list[Change] = []
        self.outages = outages

    async def accept(self, changes: Sequence[Change]) -> None:
        if self.outages:
            self.outages -= 1
            raise OutageError("broker", "away")
        self.changes += changes


@pytest.fixture
async def key(new_key: Callable[..., Any]) -> dict[str, str]:
    return {"X-API-Key": (await new_key("acme", "search", "documents:write")).key}


async def test_a_collection_is_made_once(
    database: Database, owner_url: str, key: dict[str, str]
) -> None:
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        made = await http.post("/v1/collections", json={"name": "hand/book \u00e9"}, headers=key)
        assert (made.status_code, made.json()["name"], made.json()["documents"]) == (
            201,
            "hand/book \u00e9",
            0,
        )
        assert made.json()["created_at"]
        assert (
            await http.get("/v1/collections/hand%2Fbook%20%C3%A9", headers=key)
        ).json() == made.json()
        again = await http.post("/v1/collections", json={"name": "hand/book \u00e9"}, headers=key)
        assert (again.status_code, again.json()["type"]) == (409, "urn:livedex:problem:conflict")
        assert (
            await http.post("/v1/collections", json={"name": "default"}, headers=key)
        ).status_code == 409
        assert {
            c["name"]
            for c in (await http.get("/v1/collections", headers=key)).json()["collections"]
        } == {
            "default",
            "hand/book \u00e9",
        }


async def test_one_that_a_document_made_is_there_already(
    database: Database, owner_url: str, filling: DocumentBuilder, key: dict[str, str]
) -> None:
    await filling.accept("a", 1, tenant="acme", collection="notes")
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        assert (
            await http.post("/v1/collections", json={"name": "notes"}, headers=key)
        ).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\u0000b"},
        {"name": 1},
        {"name": "a", "tenant": "b"},
        [],
    ],
)
async def test_a_collection_without_a_proper_name_is_refused(
    database: Database, owner_url: str, key: dict[str, str], body: object
) -> None:
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        assert (await http.post("/v1/collections", json=body, headers=key)).status_code == 422


async def test_deleting_one_sends_a_delete_of_each_of_its_documents_through_the_pipeline(
    database: Database,
    owner_url: str,
    filling: DocumentBuilder,
    key: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("livedex.pipeline.api.collections._AT_ONCE", 2)
    for n in range(5):
        await filling.sync(f"doc {n}", 1, f"text {n}", tenant="acme", collection="notes")
    ahead = 2**62
    await filling.accept("under way", ahead, tenant="acme", collection="notes")
    await filling.sync("elsewhere", 1, "text", tenant="acme")
    await filling.sync("doc 0", 1, "text", tenant="other", collection="notes")
    accepted = Accepted()
    async with (
        authenticated_api(database, owner_url, intake=accepted) as app,
        asgi_client(app) as http,
    ):
        answer = await http.delete("/v1/collections/notes", headers=key)
        assert (answer.status_code, answer.json()) == (202, {"name": "notes", "documents": 6})
        assert [c.data.document_id for c in accepted.changes] == [
            *(f"doc {n}" for n in range(5)),
            "under way",
        ]
        assert {(c.data.tenant_id, c.data.deleted, c.content) for c in accepted.changes} == {
            ("acme", True, None)
        }
        assert accepted.changes[-1].data.version == ahead + 1
        for change in accepted.changes:
            await filling.store.delete_document("acme", change.data.document_id, change.data.fence)
        assert (await http.get("/v1/collections/notes", headers=key)).status_code == 404
        assert (await http.delete("/v1/collections/notes", headers=key)).status_code == 404
    assert [c.name for c in await filling_collections(database, "other")] == ["default", "notes"]


async def filling_collections(database: Database, tenant: str) -> Any:
    from livedex.pipeline.store.documents.document_queries import DocumentQueries

    return await DocumentQueries(database).collections(Reader(tenant))  # type: ignore[arg-type]


async def test_while_the_broker_is_away_it_stays(
    database: Database, owner_url: str, filling: DocumentBuilder, key: dict[str, str]
) -> None:
    await filling.sync("a", 1, "text", tenant="acme", collection="notes")
    accepted = Accepted(outages=1)
    async with (
        authenticated_api(database, owner_url, intake=accepted) as app,
        asgi_client(app) as http,
    ):
        answer = await http.delete("/v1/collections/notes", headers=key)
        assert (answer.status_code, bool(answer.headers["retry-after"])) == (503, True)
        assert (await http.get("/v1/collections/notes", headers=key)).json()["documents"] == 1
        assert (await http.delete("/v1/collections/notes", headers=key)).status_code == 202
    assert len(accepted.changes) == 1


async def test_a_process_that_reaches_no_broker_refuses_for_now(
    database: Database, owner_url: str, filling: DocumentBuilder, key: dict[str, str]
) -> None:
    await filling.sync("a", 1, "text", tenant="acme", collection="notes")
    async with authenticated_api(database, owner_url) as app, asgi_client(app) as http:
        assert (await http.delete("/v1/collections/notes", headers=key)).status_code == 503
