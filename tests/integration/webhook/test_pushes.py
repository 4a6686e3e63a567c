"""Pushes to GitHub and GitLab, in any order, late and again: what is searchable at the end is what
the branch holds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from livedex.app.broker import open_broker
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.webhook_source import WebhookSource
from tests.support.http.scripted_embedder import EmbeddingServer
from tests.support.http.scripted_forge import GitForge, Tree
from tests.support.http.scripted_website import WebServer
from tests.support.http.signed_payloads import SECRET, post_signed
from tests.support.pipelines.brokers import on_alternating_brokers
from tests.support.pipelines.indexed_folder import paragraph
from tests.support.pipelines.installation import InProcessInstallation, open_installation

TOKEN = "tok-of-the-api-0815"
A, B, C, D = (paragraph(n) for n in range(4))
PATHS = (
    "refunds.md",
    "guides/first steps.md",
    "guides/größen.md",
    'it\'s 100% "odd" #1?.md',
    "a+b&c=d.txt",
    "deep/er/a.md",
)


each_forge = on_alternating_brokers(["forge"], [["github"], ["gitlab"]], fixtures=["forge"])


@pytest.fixture
def web() -> Iterator[WebServer]:
    with WebServer() as server:
        yield server


@pytest.fixture(params=["github", "gitlab"])
def forge(web: WebServer, request: pytest.FixtureRequest) -> GitForge:
    return GitForge(web, request.param, TOKEN, branch="feature/new docs")


@pytest.fixture
async def site(
    settings: Settings,
    tmp_path: Path,
    embedder: EmbeddingServer,
    forge: GitForge,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[InProcessInstallation]:
    monkeypatch.setenv("SECRET", SECRET)
    monkeypatch.setenv("API_TOKEN", TOKEN)
    preset = f"{forge.kind}-push"
    made = {
        "secret_env": "SECRET",
        "signature": "standard-webhooks",
        "base_url": f"{forge.web.url}/api",
        "token_env": "API_TOKEN",
    }
    source = WebhookSource(**{"name": "src", "preset": preset} | made)  # type: ignore[arg-type]
    async with open_installation(
        settings.model_copy(update={"source": (source,)}), tmp_path, embedder
    ) as opened:
        yield opened


async def documents(site: InProcessInstallation) -> Tree:
    """The documents that are there once everything has ended, with their texts."""
    await site.ended()
    names = [
        document["document_id"]
        for document in (await site.http.get("/v1/documents?limit=200")).json()["documents"]
    ]
    return {name.removeprefix("src/"): str(await site.text(quote(name))) for name in names}


async def deliver(site: InProcessInstallation, payload: Any, delivery: str) -> None:
    await post_signed(site, "src", payload, delivery)


async def nothing_is_dead(site: InProcessInstallation) -> None:
    assert await site.s.operations.count_dead_letters() == 0
    assert sorted(site.embedder.embedded_documents) == sorted(set(site.embedder.embedded_documents))


def changed(files: Tree, rng: random.Random) -> Tree:
    """Files after a commit: one written, removed, or called otherwise, or two of them."""
    found = dict(files)
    for _ in range(rng.randint(1, 2)):
        path = rng.choice(PATHS)
        if path in found and rng.random() < 0.4:
            text = found.pop(path)
            if rng.random() < 0.5:
                found[rng.choice(PATHS)] = text
        else:
            found[path] = paragraph(rng.randrange(40))
    return found


def pushed(forge: GitForge, rng: random.Random, second: int) -> dict[str, Any]:
    """A push: some commits, sometimes of long ago, sometimes on another commit than the head,
    sometimes more than the payload names.
    """
    onto = rng.choice(list(forge.trees)) if forge.pushes and rng.random() < 0.3 else None
    trees, files = [], forge.files if onto is None else forge.trees[onto]
    for _ in range(rng.choice((0, 1, 2, 5)) if onto is not None else rng.choice((1, 2, 5))):
        files = changed(files, rng)
        trees.append((files, rng.randrange(8000)))
    return forge.push(trees, onto, second)


@on_alternating_brokers(
    ("forge", "seed"), itertools.product(("github", "gitlab"), range(3)), fixtures=["forge"]
)
async def test_deliveries_in_any_order_and_again_end_in_what_the_branch_holds(
    site: InProcessInstallation, forge: GitForge, seed: int
) -> None:
    rng, forge.most_commits = random.Random(seed), 3
    told: list[tuple[str, Any]] = []
    left: list[tuple[str, Any]] = []
    for n in range(10):
        payload = pushed(forge, rng, n // 3)
        if forge.kind == "github" and len(payload["commits"]) == forge.most_commits:
            payload["forced"] = True  # as many as 2,048 are: see the test of that
        left.append((str(n), payload))
        while left and rng.random() < 0.45:
            told.append(left.pop(rng.randrange(len(left))))
            for delivery, body in [told[-1], *rng.choices(told, k=rng.randint(0, 2))]:
                await deliver(site, body, delivery)
    rng.shuffle(left)
    for delivery, body in left + rng.sample(told, k=len(told) // 2):
        await deliver(site, body, delivery)
    assert await documents(site) == forge.files
    await nothing_is_dead(site)


@each_forge
async def test_a_push_of_older_commits_wins_over_the_one_before_it(
    site: InProcessInstallation, forge: GitForge
) -> None:
    first = forge.push([({"refunds.md": A, "old.md": B}, 5000)])
    second = forge.push([({"refunds.md": C}, 10)], second=1)  # what lay in a branch for months
    for delivery, body in (("1", second), ("0", first), ("1", second), ("0", first)):
        await deliver(site, body, delivery)
    assert await documents(site) == {"refunds.md": C}
    await nothing_is_dead(site)


@each_forge
async def test_a_branch_that_goes_back_and_forth_between_two_commits_is_followed(
    site: InProcessInstallation, forge: GitForge
) -> None:
    one = forge.push([({"refunds.md": A}, 1)])
    first = forge.head
    two = forge.push([({"refunds.md": B}, 2)])
    second = forge.head
    for delivery, body in enumerate((one, two)):
        await deliver(site, body, str(delivery))
    for n in range(4):
        await deliver(site, forge.push([], (first, second)[n % 2]), f"again {n}")
        assert await documents(site) == {"refunds.md": (A, B)[n % 2]}
    await nothing_is_dead(site)


@each_forge
async def test_files_that_the_payload_does_not_name_are_looked_up(
    site: InProcessInstallation, forge: GitForge
) -> None:
    first = forge.push([({"refunds.md": A, "old.md": B, "logo.png": "png", ".hidden.md": C}, 1)])
    dropped = forge.push([({"refunds.md": A, "old.md": B, "draft.md": D}, 2)])
    await deliver(site, first, "0")
    await deliver(site, dropped, "1")
    assert await documents(site) == {"refunds.md": A, "old.md": B, "draft.md": D}
    forced = forge.push([({"refunds.md": C, "old.md": B}, 3)], onto=first["after"])
    assert not any("draft.md" in commit["removed"] for commit in forced["commits"])
    await deliver(site, forced, "2")
    await deliver(site, forced, "2")
    assert await documents(site) == {"refunds.md": C, "old.md": B}
    await nothing_is_dead(site)


@each_forge
async def test_a_branch_that_is_made_of_another_brings_all_its_files(
    site: InProcessInstallation, forge: GitForge
) -> None:
    sha, _ = forge.commit("0" * 40, {f"page {n}.md": paragraph(n) for n in range(130)}, 1)
    forge.trees[sha]["guides/a.md"] = A
    await deliver(site, forge.push([], onto=sha), "0")
    await site.ended()
    assert (
        await site.text("src/page 129.md") == paragraph(129)
        and await site.text("src/guides/a.md") == A
    )
    states = await site.s.operations.document_states()
    assert states == {"synced": 131}
    await nothing_is_dead(site)


@each_forge
async def test_what_cannot_be_looked_up_is_a_dead_letter_of_no_document_until_it_is_replayed(
    site: InProcessInstallation, forge: GitForge
) -> None:
    first = forge.push([({"refunds.md": A, "old.md": B}, 1)])
    await deliver(site, first, "0")
    assert await documents(site) == {"refunds.md": A, "old.md": B}
    forge.lists = False
    forced = forge.push([], onto=forge.commit("0" * 40, {"refunds.md": C}, 1)[0])
    await deliver(site, forced, "1")
    assert await documents(site) == {"refunds.md": A, "old.md": B}
    [listed] = await site.s.letters.all()
    name = f"src//{first['after'][:12]}..{forced['after'][:12]}"
    assert (listed.document_id, listed.reason, listed.stage) == (name, "retries_exhausted", "chunk")
    assert await site.s.operations.document_states() == {"synced": 2}
    forge.lists = True
    async with open_broker(site.s) as running:
        letter = await site.s.letters.find(listed.letter_id)
        assert not await site.s.letters.is_stale(letter)
        await running.broker.republish_dead_letter(letter)
        await site.s.letters.remove(letter, forget=False)
        assert await documents(site) == {"refunds.md": C}
    await nothing_is_dead(site)


@each_forge
async def test_a_file_that_is_not_shown_to_us_is_not_deleted(
    site: InProcessInstallation, forge: GitForge
) -> None:
    await deliver(site, forge.push([({"refunds.md": A}, 1)]), "0")
    assert await documents(site) == {"refunds.md": A}
    forge.token = "another one"  # as a private repository answers who may no longer read it
    await deliver(site, forge.push([({"refunds.md": B}, 2)]), "1")
    assert await documents(site) == {"refunds.md": A}
    assert "src/refunds.md" in [letter.document_id for letter in await site.s.letters.all()]


@each_forge
async def test_a_file_that_became_a_folder_or_a_link_to_nowhere_is_no_document_any_more(
    site: InProcessInstallation, forge: GitForge
) -> None:
    """What the branch holds under its path is no file; what the commit held before was one."""
    first = forge.push([({"refunds.md": A, "shipping.md": B}, 1)])
    second = forge.push([({"refunds.md/new.md": C, "shipping.md": B}, 2)])
    for delivery, body in (("1", second), ("0", first)):
        await deliver(site, body, delivery)
    assert await documents(site) == {"refunds.md/new.md": C, "shipping.md": B}
    await nothing_is_dead(site)


@each_forge
async def test_a_file_that_is_too_large_has_that_state_and_is_not_deleted(
    site: InProcessInstallation, forge: GitForge, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert site.s.fetcher is not None
    monkeypatch.setattr(site.s.fetcher._contents, "_most_bytes", 2000)  # type: ignore[attr-defined]
    await deliver(site, forge.push([({"refunds.md": A, "large.md": "words " * 1000}, 1)]), "0")
    await site.ended()
    states = {
        d["document_id"]: d["state"]
        for d in (await site.http.get("/v1/documents")).json()["documents"]
    }
    assert states == {"src/refunds.md": "synced", "src/large.md": "too_large"}
    later = forge.push([({"refunds.md": A}, 2)])
    await deliver(site, later, "1")
    assert await documents(site) == {"refunds.md": A}
    await nothing_is_dead(site)
