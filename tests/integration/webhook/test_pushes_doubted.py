"""Pushes while the API of the forge answers with something else than what it was asked: nothing is
lost by it, and nothing goes stale in silence.
"""

from __future__ import annotations

import itertools

import pytest

from livedex.app.broker import open_broker
from livedex.cli.status import count_dead
from tests.integration.webhook.test_pushes import (
    A,
    B,
    C,
    deliver,
    documents,
    forge,
    nothing_is_dead,
    site,
    web,
)
from tests.support.http.scripted_forge import GitForge
from tests.support.http.scripted_website import WebResponse
from tests.support.pipelines.brokers import on_alternating_brokers
from tests.support.pipelines.installation import InProcessInstallation

__all__ = ["forge", "site", "web"]  # fixtures

JSON = {"content-type": "application/json"}
HTML = {"content-type": "text/html; charset=utf-8"}
NO_ANSWERS = {
    "401": WebResponse(b'{"message": "401 Unauthorized"}', 401, JSON),
    "403": WebResponse(b'{"message": "403 Forbidden"}', 403, JSON),
    "404": WebResponse(status=404),
    "500": WebResponse(status=500),
    "a web page": WebResponse(b"<html>Log in", 200, HTML),
    "a list": WebResponse(b"[]", 200, JSON),
    "null": WebResponse(b"null", 200, JSON),
    "nothing": WebResponse(b"", 200, JSON),
}
SCOPE = WebResponse(b'{"error": "insufficient_scope", "scope": "api read_api"}', 403, JSON)


async def replay(site: InProcessInstallation) -> None:
    """Every dead letter again."""
    async with open_broker(site.s) as running:
        for told in await site.s.letters.all():
            letter = await site.s.letters.find(told.letter_id)
            await running.broker.republish_dead_letter(letter)
            await site.s.letters.remove(letter, forget=False)
        await site.ended()


@on_alternating_brokers(
    ("forge", "answer"), [("gitlab", answer) for answer in NO_ANSWERS], fixtures=["forge"]
)
async def test_a_forced_push_is_followed_though_its_ends_are_not_compared_at_first(
    site: InProcessInstallation, forge: GitForge, answer: str
) -> None:
    first = forge.push([({"a.md": A}, 1)])
    second = forge.push([({"a.md": B}, 2)])
    for n, payload in enumerate((first, second)):
        await deliver(site, payload, str(n))
    assert await documents(site) == {"a.md": B}
    forge.overrides["/compare"] = [NO_ANSWERS[answer]] * 2
    await deliver(site, forge.push([({"a.md": A, "other.md": C}, 3)], onto=first["after"]), "2")
    assert await documents(site) == {"a.md": A, "other.md": C}
    await nothing_is_dead(site)


@on_alternating_brokers(
    ("forge", "answer"),
    [("gitlab", answer) for answer in ("404", "a web page", "null")],
    fixtures=["forge"],
)
async def test_a_push_whose_ends_are_never_compared_is_a_dead_letter_that_counts(
    site: InProcessInstallation, forge: GitForge, answer: str
) -> None:
    first = forge.push([({"a.md": A}, 1)])
    await deliver(site, first, "0")
    await deliver(site, forge.push([({"a.md": B}, 2)]), "1")
    assert await documents(site) == {"a.md": B} and await count_dead(site.s) == 0
    forge.overrides["/compare"] = [NO_ANSWERS[answer]] * 5
    payload = forge.push([({"a.md": A, "other.md": C}, 3)], onto=first["after"])
    await deliver(site, payload, "2")
    assert await documents(site) == {"a.md": B, "other.md": C}
    [letter] = await site.s.letters.all()
    assert letter.document_id == f"src//{payload['before'][:12]}..{payload['after'][:12]}"
    assert await count_dead(site.s) == 1, "`status --wait` says so"
    await replay(site)
    assert await documents(site) == {"a.md": A, "other.md": C} and await count_dead(site.s) == 0


@on_alternating_brokers(["forge"], [["gitlab"]], fixtures=["forge"])
async def test_a_token_that_may_not_compare_is_a_warning_for_a_push_that_names_all_its_commits(
    site: InProcessInstallation, forge: GitForge, caplog: pytest.LogCaptureFixture
) -> None:
    forge.overrides["/compare"] = [SCOPE] * 10
    forge.push([({"a.md": A}, 1)])
    await deliver(site, forge.push([({"a.md": B}, 2)]), "0")
    assert await documents(site) == {"a.md": B}
    assert "read_api" in caplog.text
    await nothing_is_dead(site)


@on_alternating_brokers(
    ("forge", "answer"),
    itertools.product(("github", "gitlab"), ("404", "a web page", "null", "a list")),
    fixtures=["forge"],
)
async def test_with_a_revoked_token_only_named_removals_delete_and_a_replay_restores(
    site: InProcessInstallation, forge: GitForge, answer: str
) -> None:
    await deliver(site, forge.push([({"gone.md": A, "b.md": B}, 1)]), "0")
    assert await documents(site) == {"gone.md": A, "b.md": B}
    removed, added = forge.push([({"b.md": B}, 2)]), forge.push([({"gone.md": A, "b.md": B}, 3)])
    forge.overrides["/"] = [NO_ANSWERS[answer]] * 1000
    for n, payload in enumerate((removed, added)):
        await deliver(site, payload, f"later {n}")
    assert await documents(site) == {"gone.md": "" if answer == "404" else A, "b.md": B}
    assert await count_dead(site.s) > 0
    forge.overrides.clear()
    await replay(site)
    assert await documents(site) == {"gone.md": A, "b.md": B}
    await nothing_is_dead(site)


@on_alternating_brokers(["forge"], [["gitlab"], ["github"]], fixtures=["forge"])
async def test_a_file_that_came_and_went_within_a_push_is_no_document(
    site: InProcessInstallation, forge: GitForge
) -> None:
    await deliver(site, forge.push([({"b.md": B}, 1)]), "0")
    await deliver(site, forge.push([({"b.md": B, "draft.md": A}, 2), ({"b.md": B}, 3)]), "1")
    assert await documents(site) == {"b.md": B}
    await nothing_is_dead(site)


@on_alternating_brokers(
    ("forge", "answer"),
    itertools.product(("github", "gitlab"), ("a web page", "null", "a list")),
    fixtures=["forge"],
)
async def test_what_is_no_file_never_becomes_the_text_of_one(
    site: InProcessInstallation, forge: GitForge, answer: str
) -> None:
    await deliver(site, forge.push([({"a.md": A}, 1)]), "0")
    assert await documents(site) == {"a.md": A}
    forge.overrides["a.md"] = [NO_ANSWERS[answer]] * 1000
    await deliver(site, forge.push([({"a.md": B}, 2)]), "1")
    assert await documents(site) == {"a.md": A}
    assert {letter.document_id for letter in await site.s.letters.all()} == {"src/a.md"}
    forge.overrides.clear()
    await replay(site)
    assert await documents(site) == {"a.md": B}
    await nothing_is_dead(site)
