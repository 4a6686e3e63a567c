"""Settings of a source that would change nothing, and values that nothing could match, are refused
by one line that says so.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from livedex.app.webhook_role import check_fetch_credentials, check_webhook_sources
from livedex.connectors.webhook.presets.path_filter import PathFilter
from livedex.pipeline.errors import ConfigError
from livedex.pipeline.settings.settings import Settings
from livedex.pipeline.settings.webhook_source import WebhookSource

TEXT = {"document_id": "id", "text": "text"}
URL = {"document_id": "id", "url": "url"}
VALUES: dict[str, Any] = {
    "branch": "main",
    "repository": "a/b",
    "include": ["guides/**"],
    "exclude": ["drafts/**"],
    "base_url": "https://api.example.com",
    "token_env": "TOKEN",
    "allow_hosts": ["files.internal"],
}
SIGNING: dict[str, Any] = {"header": "X-Sum", "prefix": "v=", "encoding": "base64"}
FETCHING = {"base_url", "token_env", "allow_hosts"}
BELONGS = {
    "github-push": set(VALUES),
    "gitlab-push": set(VALUES),
    "s3": set(VALUES) - {"branch"},
    "confluence": FETCHING,
    "notion": FETCHING,
    "text": set(),
    "url": FETCHING,
}
OF_SIGNATURES = {
    "standard-webhooks": set(),
    "github": set(),
    "gitlab": set(),
    "hmac": set(SIGNING),
    "token": {"header", "prefix"},
}


def source(**given: Any) -> WebhookSource:
    return WebhookSource(**{"name": "crm", "secret_env": "S"} | given)


def meaning(kind: str) -> dict[str, Any]:
    maps = {"text": TEXT, "url": URL}
    return (
        {"map": maps[kind], "signature": "github", "order": "arrival"}
        if kind in maps
        else {"preset": kind}
    )


def refusal(**given: Any) -> str:
    with pytest.raises(ValidationError) as refused:
        source(**given)
    [error] = refused.value.errors()
    assert "source crm: " in error["msg"] and "\n" not in error["msg"]
    return str(error["msg"])


@pytest.mark.parametrize("kind", BELONGS)
@pytest.mark.parametrize("name", VALUES)
def test_a_setting_is_taken_where_it_belongs_and_refused_elsewhere(kind: str, name: str) -> None:
    given = meaning(kind) | {
        name: "bucket" if (kind, name) == ("s3", "repository") else VALUES[name]
    }
    if name == "token_env" and kind in ("confluence", "url"):
        given["base_url"] = VALUES["base_url"]
    if name in BELONGS[kind]:
        assert getattr(source(**given), name)
    else:
        assert f"{name} has no effect with" in refusal(**given)


@pytest.mark.parametrize("signature", OF_SIGNATURES)
@pytest.mark.parametrize("name", SIGNING)
def test_a_setting_of_a_signature_is_refused_with_another_one(signature: str, name: str) -> None:
    needed = {"header": "X-Sum"} if "header" in OF_SIGNATURES[signature] else {}
    given = (
        {"map": TEXT, "signature": signature, "order": "arrival"} | needed | {name: SIGNING[name]}
    )
    if name in OF_SIGNATURES[signature]:
        assert getattr(source(**given), name) == SIGNING[name]
    else:
        assert f"{name} has no effect with the signature {signature}" in refusal(**given)


@pytest.mark.parametrize("name", SIGNING)
@pytest.mark.parametrize("preset", ["github-push", "gitlab-push", "s3", "confluence", "notion"])
def test_the_signature_that_a_preset_stands_for_counts(preset: str, name: str) -> None:
    signs = {
        "github-push": "github",
        "gitlab-push": "gitlab",
        "s3": "token",
        "confluence": "hmac",
        "notion": "hmac",
    }[preset]
    if name in OF_SIGNATURES[signs]:
        assert getattr(source(preset=preset, **{name: SIGNING[name]}), name) == SIGNING[name]
    else:
        assert f"{name} has no effect with the signature {signs}" in refusal(
            preset=preset, **{name: SIGNING[name]}
        )


@pytest.mark.parametrize(
    ("preset", "given", "said"),
    [
        ("github-push", {"branch": "refs/heads/main"}, 'branch = "main"'),
        ("gitlab-push", {"branch": "refs/heads/a/b"}, 'branch = "a/b"'),
        ("github-push", {"branch": "refs/tags/v1"}, "one branch"),
        ("github-push", {"branch": "release-*"}, "one branch"),
        ("github-push", {"branch": ""}, "one branch"),
        ("github-push", {"branch": "main "}, "one branch"),
        ("github-push", {"repository": "https://github.com/a/b"}, 'repository = "a/b"'),
        ("github-push", {"repository": "git@github.com:a/b.git"}, 'repository = "a/b"'),
        ("github-push", {"repository": "a/b.git"}, 'repository = "a/b"'),
        ("github-push", {"repository": "/a/b/"}, 'repository = "a/b"'),
        ("github-push", {"repository": "b"}, "OWNER/NAME"),
        ("github-push", {"repository": ""}, "OWNER/NAME"),
        ("github-push", {"repository": "a/b/c"}, "OWNER/NAME"),
        ("github-push", {"repository": "a/*"}, "OWNER/NAME"),
        ("gitlab-push", {"repository": "https://gitlab.com/g/h/b.git"}, 'repository = "g/h/b"'),
        ("gitlab-push", {"repository": "b"}, "GROUP/NAME"),
        ("s3", {"repository": "s3://bucket/prefix"}, "bucket"),
        ("s3", {"repository": "arn:aws:s3:::bucket"}, "bucket"),
        ("s3", {"repository": "bucket/prefix"}, "bucket"),
        ("s3", {"include": [""]}, "include"),
        ("s3", {"include": ["# guides"]}, "include"),
        ("s3", {"include": ["./guides/**"]}, "include"),
        ("s3", {"include": ["../guides"]}, "include"),
        ("s3", {"include": ["guides/./*.md"]}, "include"),
        ("s3", {"include": ["https://x/guides/**"]}, "include"),
        ("s3", {"include": ["guides\\**"]}, "include"),
        ("s3", {"include": ["!drafts/**"]}, "include"),
        ("s3", {"exclude": ["./drafts"]}, "exclude"),
        ("s3", {"include": ["a/**", " "]}, "include"),
    ],
)
def test_a_value_that_nothing_matches_is_refused_with_what_was_probably_meant(
    preset: str, given: dict[str, Any], said: str
) -> None:
    assert said in refusal(preset=preset, **given)


@pytest.mark.parametrize(
    "glob",
    [
        "/guides/**",
        "guides/**",
        "guides/",
        "/guides",
        "guides",
        "guides/*.md",
        "**/a.md",
        "*.md",
        "g?ides/[a-c].md",
    ],
)
def test_globs_of_every_form_that_is_taken_match(glob: str) -> None:
    paths = PathFilter(source(preset="github-push", include=[glob]))
    assert paths.has("guides/a.md") and not paths.has("other/b.txt")


@pytest.mark.parametrize("branch", ["main", "feature/a-b", "v1.2", "ü", "refs", "a@b"])
def test_names_that_branches_have_are_taken(branch: str) -> None:
    assert source(preset="github-push", branch=branch).branch == branch


@pytest.mark.parametrize(
    ("preset", "repository"),
    [
        ("github-push", "a-b/c.d_e"),
        ("github-push", "acme/.github"),
        ("gitlab-push", "g/h/i.j"),
        ("s3", "my.bucket-1"),
    ],
)
def test_names_that_repositories_have_are_taken(preset: str, repository: str) -> None:
    assert source(preset=preset, repository=repository).repository == repository


def test_a_map_that_gives_no_content_is_refused_unless_it_only_deletes() -> None:
    assert "text or url" in refusal(map={"document_id": "id"}, signature="github")
    assert "text or url" in refusal(map={"document_id": "id", "title": "t"}, signature="github")
    source(
        map={"document_id": "id", "when": "gone", "deleted": "gone"},
        signature="github",
        order="arrival",
    )


@pytest.mark.parametrize("signature", ["standard-webhooks", "github", "gitlab"])
def test_a_map_without_an_order_is_refused_unless_the_source_says_that_the_arrival_is_one(
    signature: str,
) -> None:
    for extra in ({}, {"event_id": "id"}, {"when": "page"}):
        assert "has no version" in refusal(map=TEXT | extra, signature=signature)
        assert source(map=TEXT | extra, signature=signature, order="arrival").order == "arrival"
    assert source(map=TEXT | {"version": "v"}, signature=signature).order is None
    assert "order has no effect" in refusal(
        map=TEXT | {"version": "v"}, signature=signature, order="arrival"
    )
    assert "order has no effect" in refusal(preset="github-push", order="arrival")


@pytest.mark.parametrize("kind", [*BELONGS, "both"])
@pytest.mark.parametrize("check", [check_webhook_sources, check_fetch_credentials])
def test_a_source_that_has_to_fetch_starts_nothing_where_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, kind: str, check: Any
) -> None:
    monkeypatch.setenv("S", "secret")
    given = (
        {"map": TEXT | URL, "signature": "github", "order": "arrival"}
        if kind == "both"
        else meaning(kind)
    )
    # as the file has it
    settings = Settings(source=(source(**given),), fetch={"enabled": False})
    if kind in ("text", "both"):
        check(settings)
    else:
        with pytest.raises(ConfigError, match=r"source crm: .*LIVEDEX_FETCH_ENABLED"):
            check(settings)
