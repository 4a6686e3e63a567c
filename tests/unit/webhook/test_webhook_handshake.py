"""The one unsigned request of a sender that makes up the secret: told to the operator, and nothing
else, ever.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from livedex.app.logging_setup import SingleLineFormatter
from livedex.app.webhook_role import check_webhook_sources
from livedex.connectors.webhook import load_hooks
from livedex.connectors.webhook.verification_handshake import (
    MAX_LOGGED_TOKENS,
    WITHIN_S,
    VerificationHandshake,
)
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.webhook_source import WebhookSource

# the form of those in Notion's documentation
TOKEN = "secret_tMrlL1qK5vuQAh1b6cZGhFChZTSYJlce98V0pYn7yBl"
EVENT = {
    "id": "e1",
    "timestamp": "2026-01-01T00:00:00.000Z",
    "type": "page.deleted",
    "entity": {"id": "p1", "type": "page"},
}


@pytest.fixture
def sources() -> Sequence[WebhookSource]:
    return [
        WebhookSource(name="new", secret_env=("NEW",), preset="notion"),
        WebhookSource(name="set", secret_env=("SET",), preset="notion"),
        WebhookSource(name="changing", secret_env=("CHANGING", "SET"), preset="notion"),
    ]


@pytest.fixture
def secrets() -> Mapping[str, str]:
    return {"SET": "the-secret", "CHANGING": " "}


async def send(http: Any, source: str, body: Any, secret: str | None = None) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    signature = (
        {}
        if secret is None
        else {
            "x-notion-signature": "sha256="
            f"{hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()}"
        }
    )
    return await http.post(
        f"/v1/hooks/{source}", content=raw, headers={"content-type": "application/json"} | signature
    )


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        SingleLineFormatter("%(message)s").format(record)
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize(("source", "variable"), [("new", "NEW"), ("changing", "CHANGING")])
async def test_the_token_is_told_to_the_operator_with_what_to_do(
    http, intake, versions, caplog, source, variable
):
    answer = await send(http, source, {"verification_token": TOKEN})
    assert (answer.status_code, answer.json()) == (202, {"tokens": []})
    [line] = told(caplog)
    assert TOKEN in line and variable in line and f"source {source}" in line
    assert intake.changes == [] and versions.wanted == []


async def test_a_token_that_came_unsigned_signs_nothing(http, intake, problem_of):
    assert (await send(http, "new", {"verification_token": TOKEN})).status_code == 202
    for secret in (TOKEN, "", " ", None):
        problem_of(await send(http, "new", EVENT, secret), 401)
    assert intake.changes == []


async def test_a_source_whose_secret_is_set_tells_nothing(http, caplog, problem_of):
    problem_of(await send(http, "set", {"verification_token": TOKEN}), 401)
    assert told(caplog) == []
    assert (await send(http, "set", EVENT, "the-secret")).status_code == 202


async def test_while_a_secret_is_being_changed_the_other_one_signs(http, intake, problem_of):
    assert (await send(http, "changing", EVENT, "the-secret")).status_code == 202
    problem_of(await send(http, "changing", EVENT, " "), 401)
    assert len(intake.changes) == 1


@pytest.mark.parametrize(
    "body",
    [
        EVENT,
        EVENT | {"verification_token": TOKEN},
        {"verification_token": TOKEN, "x": 1},
        {"verification_token": ["a" * 20]},
        {"verification_token": ""},
        {"verification_token": "a" * 201},
        {"verification_token": "line\nbreak and more"},
        {"verification_token": "\x1b[2Jabcdefgh"},
        [TOKEN],
        TOKEN,
        {},
        b"{",
        b"",
        b'{"verification_token": "' + b" " * 2000 + b'"}',
    ],
)
async def test_nothing_else_that_is_unsigned_is_told_or_taken(
    http, intake, caplog, problem_of, body
):
    problem_of(await send(http, "new", body), 401)
    assert told(caplog) == [] and intake.changes == []


def test_tokens_are_told_so_many_times_a_minute_and_again_after_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    handshake = VerificationHandshake("new", ("NEW",), lambda: now[0])
    body = json.dumps({"verification_token": TOKEN}).encode()
    for _ in range(MAX_LOGGED_TOKENS):
        assert handshake.takes(body)
    for at in (0.0, WITHIN_S - 1):
        now[0] = at
        with pytest.raises(HTTPException):
            handshake.takes(body)
    assert len(told(caplog)) == MAX_LOGGED_TOKENS
    now[0] = WITHIN_S
    assert handshake.takes(body)


async def test_who_sends_too_many_is_asked_for_patience_and_fills_no_log(http, caplog, problem_of):
    for _ in range(MAX_LOGGED_TOKENS):
        await send(http, "new", {"verification_token": TOKEN})
    answer = await send(http, "new", {"verification_token": TOKEN})
    problem_of(answer, 503)
    assert len(told(caplog)) == MAX_LOGGED_TOKENS
    assert int(answer.headers["retry-after"]) >= 1


def test_only_of_a_sender_that_makes_its_secret_the_variable_may_be_unset() -> None:
    for preset in ("github-push", "gitlab-push", "s3", "confluence"):
        with pytest.raises(ConfigError, match="SOME_SECRET is not set"):
            load_hooks([WebhookSource(name="s", secret_env=("SOME_SECRET",), preset=preset)], {})


def test_the_operator_is_told_at_the_start_what_is_waited_for(
    sources: Sequence[WebhookSource], secrets: Mapping[str, str]
) -> None:
    said = {
        name: list(hook.startup_warnings) for name, hook in load_hooks(sources, secrets).items()
    }
    assert (
        said["set"] == []
        and "NEW is not set" in said["new"][0]
        and "CHANGING is not set" in said["changing"][0]
    )


def test_what_is_looked_at_before_the_start_says_nothing_that_the_start_says_again(
    sources: Sequence[WebhookSource],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("SET", "the-secret")
    check_webhook_sources(Settings(source=tuple(sources)))
    assert told(caplog) == []
