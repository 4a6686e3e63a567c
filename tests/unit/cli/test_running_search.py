"""Searches through a running `livedex up`, and the fallback when that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from livedex.app.up_client import search_via_up
from livedex.app.wiring import index_fingerprint, write_up_state
from livedex.cli.up import lock_data_directory
from livedex.pipeline.settings.settings import Settings
from tests.support.http.scripted_server import HttpRequest, HttpResponse, ScriptedServer

ANSWER = {"hits": [{"document_id": "a"}], "degraded": [], "took_ms": 1.0}


class Up(ScriptedServer):
    """What `livedex up` answers."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.sent = HttpResponse(
            200, json.dumps(ANSWER).encode(), {"content-type": "application/json"}, 0, False
        )
        super().__init__()

    def reply_to(self, request: HttpRequest) -> HttpResponse:
        self.asked.append(json.loads(request.body))
        return self.sent


@pytest.fixture
def up() -> Iterator[Up]:
    with Up() as server:
        yield server


@pytest.fixture
def data(tmp_path: Path, up: Up) -> Path:
    write_up_state(
        tmp_path, [], up.address.replace("127.0.0.1", "0.0.0.0"), 1, index_fingerprint(Settings())
    )
    return tmp_path


def ask(
    data: Path,
    settings: Settings | None = None,
    tenant: str = "default",
    principals: frozenset[str] | None = None,
) -> Any:
    return search_via_up(
        settings or Settings(),
        data,
        tenant,
        principals,
        {"query": "refunds", "limit": 3, "where": None},
    )


def test_a_running_up_is_asked_and_its_answer_is_the_answer(data: Path, up: Up) -> None:
    with lock_data_directory(data, alone=True):
        assert ask(data) == ANSWER
        assert ask(data, principals=frozenset({"b", "a"})) == ANSWER
    assert up.asked == [
        {"query": "refunds", "limit": 3},
        {"query": "refunds", "limit": 3, "principals": ["a", "b"]},
    ]


def test_nobody_is_asked_where_none_runs_or_it_serves_something_else(data: Path, up: Up) -> None:
    assert ask(data) is None
    with lock_data_directory(data, alone=True):
        assert ask(data, tenant="acme") is None
        assert ask(data, settings=Settings(database_url="postgresql://elsewhere/other")) is None
        write_up_state(data, [], up.address, 1)
        assert ask(data) is None
    assert up.asked == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b"{}"),
        (403, b"{}"),
        (404, b"{}"),
        (503, b"{}"),
        (200, b""),
        (200, b"no json"),
        (200, b"[]"),
        (200, b"{}"),
        (302, b""),
    ],
)
def test_where_it_does_not_answer_well_the_index_is_asked_itself(
    data: Path, up: Up, status: int, body: bytes
) -> None:
    up.sent = HttpResponse(status, body, {}, 0, False)
    with lock_data_directory(data, alone=True):
        assert ask(data) is None


def test_nobody_listening_is_no_obstacle(data: Path) -> None:
    write_up_state(data, [], "http://127.0.0.1:1", 1, index_fingerprint(Settings()))
    with lock_data_directory(data, alone=True):
        assert ask(data) is None
